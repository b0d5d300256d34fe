package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// ZooKeepers is a ZooKeeper of three nodes. Its methods are called by one goroutine at a time.
type ZooKeepers struct{ nodes []*Server }

// ZooKeeperThree starts an empty ZooKeeper of three nodes that ends with the test. Sessions may have a timeout from
// 100 ms to 60 s, and end within 200 ms of it. Without the program the test is skipped, see [RequireEnv], and also if
// [ZooKeeperAddrEnv] names a server.
func ZooKeeperThree(t TB, opts ...ZooKeeperOption) *ZooKeepers {
	t.Helper()
	if os.Getenv(ZooKeeperAddrEnv) != "" {
		t.Skipf("this needs a ZooKeeper of three nodes, and %s is set", ZooKeeperAddrEnv)
	}
	java := zooKeeperJava(t)
	c := newZooKeeperConfig(opts)
	dir := t.TempDir()
	var err error
	for range launchTries {
		var nodes []*Server
		nodes, err = c.launchThree(t.Context(), java, dir)
		if err == nil {
			for _, n := range nodes {
				t.Cleanup(n.process.kill)
			}
			return &ZooKeepers{nodes}
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	t.Fatalf("%v", err)
	return nil
}

// launchThree starts the nodes, which serve only together. If one does not, none is left running.
func (c *zooKeeperConfig) launchThree(ctx context.Context, java, dir string) ([]*Server, error) {
	dir, err := os.MkdirTemp(dir, "three-")
	if err != nil {
		return nil, err
	}
	members := make([]zooKeeperNode, 3)
	// A leader and its followers wait for each other for two seconds, so that a busy machine does not part them.
	lines := []string{"tickTime=200", "initLimit=50", "syncLimit=10"}
	for i := range members {
		m := zooKeeperNode{id: i + 1}
		for _, port := range []*int{&m.client, &m.peer, &m.election} {
			if *port, err = freePort(ctx); err != nil {
				return nil, err
			}
		}
		members[i] = m
		lines = append(lines, fmt.Sprintf("server.%d=%s:%d:%d", m.id, host, m.peer, m.election))
	}
	nodes := make([]*Server, len(members))
	for i, m := range members {
		p, err := c.prepare(java, dir, m, lines...)
		if err != nil {
			return nil, err
		}
		nodes[i] = &Server{addr: address(m.client), url: address(m.client), process: p}
	}
	if err := startAll(ctx, nodes); err != nil {
		for _, n := range nodes {
			n.process.kill()
		}
		return nil, err
	}
	return nodes, nil
}

// Nodes returns the three nodes, each of which can be killed, restarted, stopped and continued. Restart waits until the
// node serves, for which one other has to run.
func (z *ZooKeepers) Nodes() []*Server { return z.nodes }

// Addrs returns the addresses of the nodes.
func (z *ZooKeepers) Addrs() []string {
	addrs := make([]string, len(z.nodes))
	for i, n := range z.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// Leader returns the node that leads, waiting for an election for as long as a start may take.
func (z *ZooKeepers) Leader(t TB) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
	defer cancel()
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	for {
		for _, n := range z.nodes {
			mode, err := zooKeeperAsk(ctx, n.Addr(), "srvr")
			if err == nil && strings.Contains(mode, "\nMode: leader\n") {
				return n
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("find the leader: %v", ctx.Err())
		}
	}
}
