package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/consulleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// rawDeadline is that of a raw term over HTTP, as everybody who uses a network gives one. It costs the transport some
	// microseconds.
	rawDeadline = 2 * time.Second
	// connections are kept by each client over HTTP.
	connections = 16
	// httpSettle is how long a request over HTTP that waits takes to arrive.
	httpSettle = 20 * time.Millisecond
)

// Consul is a server with everybody who works on it.
type Consul struct {
	server *testserver.Server
	client *api.Client // of all, so that nobody has other connections
}

// NewConsul starts a Consul, which waits for its disk; one that [testserver.ConsulAddrEnv] names is taken as it is.
func NewConsul(t testserver.TB) *Consul {
	t.Helper()
	c := &Consul{server: testserver.Consul(t)}
	c.client = c.dial(t, newTransport(t))
	return c
}

func newTransport(t testserver.TB) http.RoundTripper {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func (c *Consul) dial(t testserver.TB, transport http.RoundTripper) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{
		Address: c.server.Addr(), Token: c.server.Password(), HttpClient: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return client
}

func (c *Consul) driver(t testserver.TB, client *api.Client) *consulleader.Backend {
	t.Helper()
	d := consulleader.New(client, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (c *Consul) Run(t testserver.TB) Op { return run(newElector(t, c.driver(t, c.client)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (c *Consul) Skip(t testserver.TB) Op {
	hold(t, newElector(t, c.driver(t, c.client)), "skip")
	return skip(newElector(t, c.driver(t, c.client)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a client of its own.
func (c *Consul) Handoff(t testserver.TB) contest.Way {
	r := newRelay(t, c.driver(t, c.dial(t, newTransport(t))), c.driver(t, c.dial(t, newTransport(t))), 0)
	r.settle = httpSettle
	return r.pass
}

// Floor returns the transaction and the deletion of the driver for a RunIfLeader, by the raw client, on one session for
// all.
func (c *Consul) Floor(t testserver.TB) Op {
	term := c.record(t, "floor")
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, rawDeadline)
		defer cancel()
		index, err := term.acquire(ctx, c.client, rand.Text())
		if err != nil {
			return err
		}
		return term.release(ctx, c.client, index)
	}
}

// SkipFloor returns the read by which the driver finds a key held, by the raw client.
func (c *Consul) SkipFloor(t testserver.TB) Op {
	t.Helper()
	hold(t, newElector(t, c.driver(t, c.client)), "skip floor")
	key := c.recordSkip(t, "skip floor")
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, rawDeadline)
		defer cancel()
		pair, _, err := c.client.KV().Get(key, (&api.QueryOptions{}).WithContext(ctx))
		if err == nil && (pair == nil || pair.Session == "") {
			err = errors.New("the key is not held")
		}
		return err
	}
}

// RawHandoff returns the hand-off by raw clients and the driver's own requests: one releases; another, whose query waits
// for a change of the key, hears of it and acquires. The time ends with the answer.
func (c *Consul) RawHandoff(t testserver.TB) contest.Way {
	t.Helper()
	term := c.record(t, "raw hand-off")
	from, to := c.dial(t, newTransport(t)), c.dial(t, newTransport(t))
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		index, err := term.acquire(ctx, from, rand.Text())
		if err != nil {
			return 0, err
		}
		var next uint64
		took, err := passAfter(httpSettle, func() error {
			if err := term.awaitDelete(ctx, to, index); err != nil {
				return err
			}
			var err error
			next, err = term.acquire(ctx, to, rand.Text())
			return err
		}, func() error { return term.release(ctx, from, index) })
		if err != nil {
			return 0, err
		}
		return took, term.release(ctx, to, next)
	}
}

// Lock returns an acquisition and a release by the client's own lock, on one session for all.
func (c *Consul) Lock(t testserver.TB) Op {
	t.Helper()
	lock := c.newLock(t, c.client, "lock")
	return func(context.Context) error {
		if err := lockConsul(lock); err != nil {
			return err
		}
		return lock.Unlock()
	}
}

// LockHandoff returns the hand-off between two locks, each with a client and a session of its own.
func (c *Consul) LockHandoff(t testserver.TB) contest.Way {
	t.Helper()
	from := c.newLock(t, c.dial(t, newTransport(t)), "lock-hand-off")
	to := c.newLock(t, c.dial(t, newTransport(t)), "lock-hand-off")
	return func(context.Context) (time.Duration, error) {
		if err := lockConsul(from); err != nil {
			return 0, err
		}
		took, err := passAfter(httpSettle, func() error { return lockConsul(to) }, from.Unlock)
		if err != nil {
			return 0, err
		}
		return took, to.Unlock()
	}
}

func (c *Consul) newLock(t testserver.TB, client *api.Client, key string) *api.Lock {
	t.Helper()
	lock, err := client.LockOpts(&api.LockOptions{Key: key, Session: c.session(t)})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return lock
}

// lockConsul waits for a lock for as long as the client does not fail.
func lockConsul(lock *api.Lock) error {
	timeout := make(chan struct{})
	defer time.AfterFunc(patience, func() { close(timeout) }).Stop()
	lost, err := lock.Lock(timeout)
	if err == nil && lost == nil {
		err = errRefused
	}
	return err
}

// session returns a session that lasts as long as one can.
func (c *Consul) session(t testserver.TB) string {
	t.Helper()
	entry := &api.SessionEntry{TTL: "24h", Behavior: api.SessionBehaviorDelete, LockDelay: 1}
	id, _, err := c.client.Session().CreateNoChecks(entry, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _, _ = c.client.Session().Destroy(id, nil) })
	return id
}
