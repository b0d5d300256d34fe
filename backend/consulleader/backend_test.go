package consulleader_test

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	patience = 30 * time.Second

	// ttl is the shortest; long one that tests do not outlive.
	ttl  = consulleader.MinTTL
	long = 10 * time.Minute
)

func connect(t testing.TB, server *testserver.Server) *api.Client {
	t.Helper()
	return connectTo(t, server.Addr(), server.Password())
}

func connectTo(t testing.TB, addr, token string) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: addr, Token: token, Transport: transport(t)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// open returns a backend that is closed at the end.
func open(t testing.TB, client *api.Client, opts *consulleader.Options) *consulleader.Backend {
	t.Helper()
	b := consulleader.New(client, opts)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func request(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: ttl}
}

func win(t testing.TB, b backend.Driver, req backend.Request) backend.Lease {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", req.Key, err)
	}
	return lease
}

// holder attempts on a held key and returns what the attempt learned.
func holder(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	_, err := b.TryAcquire(t.Context(), request(key, time.Minute))
	held, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("TryAcquire(%q): %v, want a HeldError", key, err)
	}
	return held.Holder
}

func inspect(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect(%q): %v", key, err)
	}
	return h
}

func release(t testing.TB, lease backend.Lease, keep time.Duration) {
	t.Helper()
	if err := lease.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release(%v): %v", keep, err)
	}
}

func renew(t testing.TB, lease backend.Lease) {
	t.Helper()
	if err := lease.Renew(t.Context(), ttl); err != nil {
		t.Fatalf("Renew: %v", err)
	}
}

func lost(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrLost) {
		t.Errorf("%s: %v, want ErrLost", what, err)
	}
}

func kind(t testing.TB, what string, err error, want backend.Kind) {
	t.Helper()
	if got := backend.KindOf(err); err == nil || got != want {
		t.Errorf("%s: %v, of kind %v, want %v", what, err, got, want)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}
