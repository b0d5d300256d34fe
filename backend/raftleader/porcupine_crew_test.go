package raftleader

import (
	"context"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend/backendtest/netfault"
)

const (
	crewSize     = 3
	crewElection = 200 * time.Millisecond
	crewPatience = 30 * time.Second
)

// links are the connections from each of some nodes to each other one, through proxies.
type links struct {
	addrs   []string
	proxies map[[2]int]*netfault.Proxy
}

// link puts a proxy between any two addresses.
func link(t testing.TB, addrs []string) *links {
	t.Helper()
	l := &links{addrs: addrs, proxies: map[[2]int]*netfault.Proxy{}}
	for from := range addrs {
		for to := range addrs {
			if from == to {
				continue
			}
			p, err := netfault.Listen(t.Context(), addrs[to])
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			l.proxies[[2]int{from, to}] = p
		}
	}
	return l
}

// way is where a node finds another one, given its address.
func (l *links) way(from int, address string) string {
	for to, a := range l.addrs {
		if p := l.proxies[[2]int{from, to}]; p != nil && a == address {
			return p.Addr()
		}
	}
	return address
}

// around does something to every link from and to a node.
func (l *links) around(node int, do func(p *netfault.Proxy)) {
	for ends, p := range l.proxies {
		if ends[0] == node || ends[1] == node {
			do(p)
		}
	}
}

func (l *links) mend() {
	for _, p := range l.proxies {
		p.Mend()
	}
}

// crew is a cluster of nodes in this process, on disk, that come and go.
type crew struct {
	*links

	dir   string
	nodes [crewSize]atomic.Pointer[Backend] // nil while a node is away
}

func newCrew(t testing.TB) *crew {
	t.Helper()
	return newCrewIn(t, t.TempDir())
}

// listen listens on n free ports, all of which are taken before the first is given back.
func listen(t testing.TB, n int) (listeners []net.Listener, addrs []string) {
	t.Helper()
	for range n {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners, addrs = append(listeners, l), append(addrs, l.Addr().String())
	}
	return listeners, addrs
}

func newCrewIn(t testing.TB, dir string) *crew {
	t.Helper()
	listeners, addrs := listen(t, crewSize)
	c := &crew{dir: dir, links: link(t, addrs)}
	for i, l := range listeners {
		c.open(t, i, l)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.kill(i)
		}
	})
	c.leader(t)
	return c
}

// open starts a node from its folder.
func (c *crew) open(t testing.TB, i int, l net.Listener) {
	t.Helper()
	b, err := Open(context.WithoutCancel(t.Context()), Config{
		Addr: c.addrs[i], Peers: c.addrs, Dir: filepath.Join(c.dir, strconv.Itoa(i)), ElectionTimeout: crewElection,
		hooks: hooks{
			listener: l,
			dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, c.way(i, address))
			},
			snapshot: snapshotPolicy{every: time.Second, threshold: 200, trailing: 50},
		},
	})
	if err != nil {
		t.Errorf("node %d: %v", i, err)
		return
	}
	c.nodes[i].Store(b)
}

// kill ends a node without a farewell.
func (c *crew) kill(i int) {
	if b := c.nodes[i].Swap(nil); b != nil {
		_ = b.close(false) // it is killed
	}
}

// leading returns the raft leader that is ready, -1 if there is none.
func (c *crew) leading() int {
	for i := range c.nodes {
		if b := c.nodes[i].Load(); b != nil && b.office.Load() != nil {
			return i
		}
	}
	return -1
}

func (c *crew) leader(t testing.TB) (i int) {
	t.Helper()
	until(t, "a node leads", func() bool {
		i = c.leading()
		return i >= 0
	})
	return i
}

// until waits for something that is bound to come.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(crewPatience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// some returns any node, nil if it is away.
func (c *crew) some(r *rand.Rand) driver {
	if b := c.nodes[r.IntN(crewSize)].Load(); b != nil {
		return b
	}
	return nil
}

// suffer brings one fault after another, until ctx ends, and counts them.
func (c *crew) suffer(ctx context.Context, t testing.TB, r *rand.Rand) map[string]int {
	faults := map[string]int{}
	for ctx.Err() == nil {
		pause(ctx, 300*time.Millisecond)
		name := c.fault(ctx, t, r)
		faults[name]++
		c.mend()
	}
	return faults
}

// fault brings one fault and ends it.
func (c *crew) fault(ctx context.Context, t testing.TB, r *rand.Rand) string {
	victim := c.leading()
	name := "the leader "
	if victim < 0 || r.IntN(3) == 0 {
		victim, name = r.IntN(crewSize), "a node "
	}
	lasts := time.Duration(100+r.IntN(900)) * time.Millisecond
	switch r.IntN(6) {
	case 0:
		c.kill(victim)
		pause(ctx, lasts)
		c.open(t, victim, nil)
		return name + "killed"
	case 1:
		c.around(victim, (*netfault.Proxy).Drop)
		pause(ctx, lasts)
		return name + "cut off"
	case 2:
		c.around(victim, (*netfault.Proxy).Freeze)
		pause(ctx, lasts)
		return name + "frozen"
	case 3:
		c.around(victim, (*netfault.Proxy).Cut)
		return name + "reset"
	case 4:
		other := (victim + 1 + r.IntN(crewSize-1)) % crewSize
		c.proxies[[2]int{victim, other}].Freeze()
		pause(ctx, lasts)
		return name + "frozen in one direction"
	}
	if b := c.nodes[victim].Load(); b != nil {
		_ = b.raft.LeadershipTransfer().Error() // it may not be the leader
	}
	return name + "asked to step down"
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
