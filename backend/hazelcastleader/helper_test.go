package hazelcastleader_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// patience is the watchdog of every wait in these tests.
	patience = 20 * time.Second
	long     = time.Minute
	brief    = 300 * time.Millisecond

	// sameMachine is by how much the clocks of members differ here: not at all.
	sameMachine = 20 * time.Millisecond
)

// configuration is that of a client of members at some addresses, which looks for them often.
func configuration(addrs ...string) hazelcast.Config {
	var c hazelcast.Config
	c.Logger.Level = logger.OffLevel
	c.Cluster.Network.Addresses = addrs
	c.Cluster.Network.ConnectionTimeout = types.Duration(time.Second)
	c.Cluster.ConnectionStrategy.Retry.InitialBackoff = types.Duration(50 * time.Millisecond)
	c.Cluster.ConnectionStrategy.Retry.MaxBackoff = types.Duration(50 * time.Millisecond)
	hazelcastleader.Configure(&c)
	return c
}

// connect returns a client of all members, by one of their addresses.
func connect(t testing.TB, addrs ...string) *hazelcast.Client {
	t.Helper()
	return connectWith(t, configuration(addrs...))
}

// connectThrough returns a client that has one connection, to an address alone, which may be that of a proxy.
func connectThrough(t testing.TB, addr string) *hazelcast.Client {
	t.Helper()
	c := configuration(addr)
	c.Cluster.Unisocket = true
	return connectWith(t, c)
}

func connectWith(t testing.TB, c hazelcast.Config) *hazelcast.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := hazelcast.StartNewClientWithConfig(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_ = client.Shutdown(ctx)
	})
	return client
}

// fresh is the name of a map that nobody has.
func fresh() string { return "leader-" + strings.ToLower(rand.Text()) }

// open returns a backend that ends with the test, before the client does.
func open(t testing.TB, client *hazelcast.Client, opts *hazelcastleader.Options) *hazelcastleader.Backend {
	t.Helper()
	if os.Getenv(testserver.HazelcastAddrEnv) != "" {
		t.Cleanup(func() { destroy(t, client, opts.Map) })
	}
	b := hazelcastleader.New(client, opts)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// destroy leaves nothing in a cluster that is not the test's own.
func destroy(t testing.TB, client *hazelcast.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for _, name := range []string{name, name + "_records"} {
		m, err := client.GetMap(ctx, name)
		if err != nil {
			t.Log(err) // of a client that the test has shut down
			return
		}
		if err := m.Destroy(ctx); err != nil {
			t.Error(err)
		}
	}
}

// start returns a backend on a new map of a lone member, and that map.
func start(t testing.TB) (*hazelcastleader.Backend, *hazelcast.Map) {
	t.Helper()
	return startOn(t, connect(t, lone.get(t).Addr()))
}

// startOn returns a backend on a new map, and that map.
func startOn(t testing.TB, client *hazelcast.Client) (*hazelcastleader.Backend, *hazelcast.Map) {
	t.Helper()
	name := fresh()
	m, err := client.GetMap(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, client, &hazelcastleader.Options{Map: name}), m
}

// owned is a lone member that the test may harm.
func owned(t testing.TB) *testserver.Server {
	t.Helper()
	server := testserver.Hazelcast(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// unharmed is a lone member of these tests, which they share.
func unharmed(t testing.TB) *testserver.Server {
	t.Helper()
	server := lone.get(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// two are the two members that tests share. Whoever harms one brings it back.
func two(t testing.TB) *testserver.Hazelcasts {
	t.Helper()
	h := pair.get(t)
	for i := range h.Members() {
		h.AwaitSize(t, i, len(h.Members()))
	}
	return h
}

// behind returns a proxy before an address.
func behind(t testing.TB, addr string) *netfault.Proxy {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
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
	_, err := b.TryAcquire(t.Context(), request(key, long))
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

func renew(t testing.TB, l backend.Lease, ttl time.Duration) {
	t.Helper()
	if err := l.Renew(t.Context(), ttl); err != nil {
		t.Fatalf("Renew: %v", err)
	}
}

func release(t testing.TB, l backend.Lease, keep time.Duration) {
	t.Helper()
	if err := l.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// kind checks how an error is classified.
func kind(t testing.TB, what string, err error, want backend.Kind) {
	t.Helper()
	if err == nil || backend.KindOf(err) != want {
		t.Errorf("%s: %v of kind %v, want %v", what, err, backend.KindOf(err), want)
	}
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// smallest is the member that PinnedBalancer chooses.
func smallest(members []*testserver.Server) *testserver.Server {
	return slices.MinFunc(members, func(a, b *testserver.Server) int { return strings.Compare(a.Addr(), b.Addr()) })
}
