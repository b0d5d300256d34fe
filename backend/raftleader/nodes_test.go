package raftleader_test

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/raftleader"
)

const (
	// election is short enough for tests, and long for a busy machine.
	election = 500 * time.Millisecond
	// patience is how long the tests wait for what has to happen.
	patience = 30 * time.Second

	ttl = time.Minute
)

// nodes is a cluster in this process.
type nodes struct {
	t       testing.TB
	configs []raftleader.Config
	list    []*raftleader.Backend // nil where a node is down
	proxies map[[2]string]*netfault.Proxy
}

// change is a change of the configuration of a node.
type change func(i int, c *raftleader.Config)

// durable gives the nodes folders.
func durable(t testing.TB) change {
	t.Helper()
	dir := t.TempDir()
	return func(i int, c *raftleader.Config) { c.Dir = filepath.Join(dir, strconv.Itoa(i)) }
}

// newNodes prepares n nodes and starts none.
func newNodes(t testing.TB, n int, changes ...change) *nodes {
	t.Helper()
	c := &nodes{t: t, list: make([]*raftleader.Backend, n), proxies: map[[2]string]*netfault.Proxy{}}
	var peers []string
	for range n {
		l := listen(t, "127.0.0.1:0")
		address := l.Addr().String()
		peers = append(peers, address)
		cfg := raftleader.Config{Addr: address, ElectionTimeout: election}
		cfg.WithListener(l)
		c.configs = append(c.configs, cfg)
	}
	for i := range c.configs {
		c.configs[i].Peers = peers
		for _, change := range changes {
			change(i, &c.configs[i])
		}
	}
	t.Cleanup(c.stop)
	return c
}

// startNodes starts n nodes and waits until each knows the raft leader.
func startNodes(t testing.TB, n int, changes ...change) *nodes {
	t.Helper()
	c := newNodes(t, n, changes...)
	for i := range n {
		c.start(i)
	}
	c.leader()
	return c
}

// faulty puts a proxy into every connection from node to node. It has to be called before the start.
func (c *nodes) faulty() {
	c.t.Helper()
	for i := range c.configs {
		from := c.configs[i].Addr
		for _, to := range c.configs[i].Peers {
			proxy, err := netfault.Listen(c.t.Context(), to)
			if err != nil {
				c.t.Fatal(err)
			}
			c.t.Cleanup(proxy.Close)
			c.proxies[[2]string{from, to}] = proxy
		}
		c.configs[i].WithDial(func(ctx context.Context, network, address string) (net.Conn, error) {
			if proxy := c.proxies[[2]string{from, address}]; proxy != nil {
				address = proxy.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		})
	}
}

// isolate freezes what node i says to the others, and they to it.
func (c *nodes) isolate(i int) (heal func()) {
	mine := c.configs[i].Addr
	var frozen []*netfault.Proxy
	for link, proxy := range c.proxies {
		if (link[0] == mine) != (link[1] == mine) {
			proxy.Freeze()
			frozen = append(frozen, proxy)
		}
	}
	return sync.OnceFunc(func() {
		for _, proxy := range frozen {
			proxy.Thaw()
		}
	})
}

// start starts node i.
func (c *nodes) start(i int) *raftleader.Backend {
	c.t.Helper()
	b, err := raftleader.Open(c.t.Context(), c.configs[i])
	if err != nil {
		c.t.Fatal(err)
	}
	c.configs[i].WithListener(nil) // it is closed with the node
	c.list[i] = b
	return b
}

// kill ends node i without warning.
func (c *nodes) kill(i int) {
	c.t.Helper()
	if err := c.list[i].Kill(); err != nil {
		c.t.Error(err)
	}
	c.list[i] = nil
}

// stop closes what is still running.
func (c *nodes) stop() {
	for _, b := range c.list {
		if b != nil {
			_ = b.Kill()
		}
	}
}

// leader waits for the raft leader and until all running nodes know one, and returns its number.
func (c *nodes) leader() int {
	c.t.Helper()
	leader := -1
	eventually(c.t, "there is a raft leader, and all know it", func() bool {
		leader = -1
		for i, b := range c.list {
			switch {
			case b == nil:
			case !b.Knows():
				return false
			case b.Leads():
				leader = i
			}
		}
		return leader >= 0
	})
	return leader
}

// follower returns the number of a running node that is not the raft leader.
func (c *nodes) follower() int {
	c.t.Helper()
	leader := c.leader()
	for i, b := range c.list {
		if b != nil && i != leader {
			return i
		}
	}
	c.t.Fatal("there is no follower")
	return -1
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// settled makes a call again as long as its outcome is unknown.
func settled(t testing.TB, call func(ctx context.Context) error) error {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*election)
		err := call(ctx)
		cancel()
		if backend.KindOf(err) != backend.Unavailable || time.Now().After(end) {
			return err
		}
	}
}

// renewed renews a lease that is still there.
func renewed(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := settled(t, func(ctx context.Context) error { return l.Renew(ctx, ttl) }); err != nil {
		t.Errorf("Renew: %v", err)
	}
}

// released releases a lease.
func released(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := settled(t, func(ctx context.Context) error { return l.Release(ctx, 0) }); err != nil {
		t.Errorf("Release: %v", err)
	}
}

func request(key, token string) backend.Request {
	return backend.Request{Key: key, Token: token, Owner: "owner of " + token, TTL: ttl}
}

// acquire acquires a key that is free.
func acquire(t testing.TB, b *raftleader.Backend, key, token string) backend.Lease {
	t.Helper()
	var l backend.Lease
	err := settled(t, func(ctx context.Context) error {
		var err error
		l, err = b.TryAcquire(ctx, request(key, token))
		return err
	})
	if err != nil {
		t.Fatalf("%q by %q: %v", key, token, err)
	}
	return l
}
