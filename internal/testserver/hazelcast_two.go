package testserver

import (
	"context"
	"errors"
	"os"
	"time"
)

// Hazelcasts is a Hazelcast of two members. Its methods are called by one goroutine at a time.
type Hazelcasts struct{ members []*Server }

// HazelcastTwo starts an empty Hazelcast of two members that ends with the test. Each has a copy of everything, so that
// one can be killed, and restarted once the other works alone. Where it is not built the test is skipped, see
// [RequireEnv], and also if [HazelcastAddrEnv] names a member.
func HazelcastTwo(t TB, opts ...HazelcastOption) *Hazelcasts {
	t.Helper()
	if os.Getenv(HazelcastAddrEnv) != "" {
		t.Skipf("this needs a Hazelcast of two members, and %s is set", HazelcastAddrEnv)
	}
	java := hazelcastJava(t)
	c := newHazelcastConfig(opts)
	dir := t.TempDir()
	var err error
	for range launchTries {
		var members []*Server
		members, err = c.launchTwo(t, java, dir)
		if err == nil {
			for _, m := range members {
				t.Cleanup(m.process.kill)
			}
			return &Hazelcasts{members}
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	t.Fatalf("%v", err)
	return nil
}

// launchTwo starts the members. If one does not start, none is left running.
func (c *hazelcastConfig) launchTwo(t TB, java, dir string) ([]*Server, error) {
	t.Helper()
	list := make([]hazelcastMember, 2)
	for i := range list {
		port, err := freePort(t.Context())
		if err != nil {
			return nil, err
		}
		list[i] = hazelcastMember{port: port, tells: c.tells(t, port)}
	}
	list[0].others, list[1].others = []string{list[1].tells}, []string{list[0].tells}
	var members []*Server
	for i, m := range list {
		// The first one starts alone: two at once take seconds to agree on who is the first.
		p, err := c.prepare(java, dir, m, i+1)
		if err == nil {
			members = append(members, &Server{addr: address(m.port), url: address(m.port), process: p})
			err = p.start(t.Context())
		}
		if err != nil {
			for _, m := range members {
				m.process.kill()
			}
			return nil, err
		}
	}
	members[0].process.ready = hazelcastReady(members[0].process, members[0].addr, 2)
	return members, nil
}

// Members returns the two members, each of which can be killed, restarted, stopped and continued. Restart waits until the
// member has joined the other one, which has to run, and each has a copy of everything again.
func (h *Hazelcasts) Members() []*Server { return h.members }

// Addrs returns the addresses of the members.
func (h *Hazelcasts) Addrs() []string { return []string{h.members[0].Addr(), h.members[1].Addr()} }

// AwaitSize waits until a member sees a cluster of the size given, whose backups are made, for as long as a start may
// take.
func (h *Hazelcasts) AwaitSize(t TB, member, size int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
	defer cancel()
	look := time.NewTicker(hazelcastLook)
	defer look.Stop()
	for {
		health, err := askHazelcast(ctx, h.members[member].Addr())
		if err == nil && health.ClusterSafe && health.ClusterSize == size {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("wait for a cluster of %d: %v, last %+v, %v", size, ctx.Err(), health, err)
		}
	}
}

// hazelcastLook is the time between two looks at a cluster.
const hazelcastLook = 20 * time.Millisecond
