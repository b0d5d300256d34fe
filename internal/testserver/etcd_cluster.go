package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// EtcdCluster is an etcd of three nodes. Its methods are called by one goroutine at a time.
type EtcdCluster struct {
	nodes []*Server
}

// EtcdThree starts an empty etcd of three nodes that ends with the test. Without the program the test is skipped, see
// [RequireEnv], and also if [EtcdURLEnv] names a server.
func EtcdThree(t TB, opts ...EtcdOption) *EtcdCluster {
	t.Helper()
	if os.Getenv(EtcdURLEnv) != "" {
		t.Skipf("this needs an etcd of three nodes, and %s is set", EtcdURLEnv)
	}
	c := newEtcdConfig(opts)
	program := c.program(t)
	dir := t.TempDir()
	var err error
	for range launchTries {
		var nodes []*Server
		nodes, err = c.launchAll(t.Context(), program, dir)
		if err == nil {
			for _, n := range nodes {
				t.Cleanup(n.process.kill)
			}
			return &EtcdCluster{nodes}
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	t.Fatalf("%v", err)
	return nil
}

// launchAll starts the members, which answer only together. If one does not, none is left running.
func (c *etcdConfig) launchAll(ctx context.Context, program, dir string) ([]*Server, error) {
	members := make([]etcdNode, 3)
	for i := range members {
		client, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		peer, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		members[i] = etcdNode{name: fmt.Sprintf("n%d", i), client: client, peer: peer}
	}
	nodes := make([]*Server, len(members))
	for i, m := range members {
		p, err := c.prepare(program, dir, m, members)
		if err != nil {
			return nil, err
		}
		nodes[i] = &Server{addr: address(m.client), url: m.clientURL(), process: p}
	}
	err := startAll(ctx, nodes)
	if err != nil {
		for _, n := range nodes {
			n.process.kill()
		}
	}
	return nodes, err
}

func startAll(ctx context.Context, nodes []*Server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(nodes))
	var starting sync.WaitGroup
	for i, n := range nodes {
		starting.Go(func() {
			if errs[i] = n.process.start(ctx); errs[i] != nil {
				cancel() // the others would wait for this one
			}
		})
	}
	starting.Wait()
	return errors.Join(errs...)
}

// Nodes returns the three nodes, each of which can be killed, restarted, stopped and continued. Restart waits until the
// node answers, for which one other has to run.
func (c *EtcdCluster) Nodes() []*Server { return c.nodes }

// URL returns the URLs of the nodes, separated by commas.
func (c *EtcdCluster) URL() string {
	urls := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		urls[i] = n.URL()
	}
	return strings.Join(urls, ",")
}

// Leader returns the node that leads, waiting for an election for as long as a start may take.
func (c *EtcdCluster) Leader(t TB) *Server {
	t.Helper()
	leader, _, err := c.leader(t.Context())
	if err != nil {
		t.Fatalf("find the leader: %v", err)
	}
	return leader
}

// MoveLeader makes another node lead that runs, and returns it.
func (c *EtcdCluster) MoveLeader(t TB) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		leader, others, err := c.leader(ctx)
		if err != nil {
			t.Fatalf("move the leader: %v", err)
		}
		for id, other := range others {
			body := map[string]string{"targetID": id}
			path := "/v3/maintenance/transfer-leadership"
			if err = etcdCall(ctx, http.MethodPost, leader.Addr(), path, body, new(struct{})); err == nil {
				return other
			}
		}
		// The leader may have changed, or the other may not have caught up.
		if err := etcdPause(ctx, lookPeriod); err != nil {
			t.Fatalf("move the leader: %v", err)
		}
	}
}

// leader looks until a node says that it leads. others are the nodes that follow it, by their member ids.
func (c *EtcdCluster) leader(ctx context.Context) (leader *Server, others map[string]*Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		leader, others = nil, map[string]*Server{}
		for _, n := range c.nodes {
			s, err := statusSoon(ctx, n.Addr())
			if err != nil {
				continue // it is down
			}
			if s.Leader == s.Header.Member {
				leader = n
			} else {
				others[s.Header.Member] = n
			}
		}
		if leader != nil {
			return leader, others, nil
		}
		if err := etcdPause(ctx, lookPeriod); err != nil {
			return nil, nil, fmt.Errorf("no node leads: %w", err)
		}
	}
}

// statusSoon gives up on a node that is stopped.
func statusSoon(ctx context.Context, addr string) (etcdStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout/4)
	defer cancel()
	return etcdStatusOf(ctx, addr)
}

func etcdPause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
