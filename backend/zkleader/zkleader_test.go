package zkleader_test

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/internal/testserver"
)

// patience is how long a test waits before it calls something stuck.
const patience = 20 * time.Second

// open returns a backend that is closed with the test.
func open(t testing.TB, addr string, opts *zkleader.Options) *zkleader.Backend {
	t.Helper()
	b := zkleader.New([]string{addr}, opts)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a client that has a session, beside those of the backends.
func connect(t testing.TB, addrs ...string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect(addrs, 20*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	watchdog := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c
			}
		case <-watchdog:
			t.Fatal("the client gets no session")
		}
	}
}

// ownServer starts a server that the test may harm.
func ownServer(t testing.TB, opts ...testserver.ZooKeeperOption) *testserver.Server {
	t.Helper()
	server := testserver.ZooKeeper(t, opts...)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// request is an acquisition of key with a new token.
func request(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: ttl}
}

// acquired acquires and must succeed.
func acquired(t testing.TB, b *zkleader.Backend, req backend.Request) backend.Lease {
	t.Helper()
	l, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", req.Key, err)
	}
	return l
}

// refused attempts and must find the key held.
func refused(t testing.TB, b *zkleader.Backend, req backend.Request) {
	t.Helper()
	if _, err := b.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("TryAcquire(%q): %v, want ErrHeld", req.Key, err)
	}
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}
