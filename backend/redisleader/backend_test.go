package redisleader_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

// patience is the watchdog of every wait in these tests.
const patience = 20 * time.Second

// connect returns a client of the server that ends with the test.
func connect(t testing.TB, server *testserver.Server) *redis.Client {
	t.Helper()
	return connectTo(t, server.Addr(), server.Password())
}

func connectTo(t testing.TB, addr, password string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, Password: password, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// open returns a backend on the client that ends with the test, before the client does.
func open(t testing.TB, client redis.UniversalClient, opts *redisleader.Options) *redisleader.Backend {
	t.Helper()
	b := redisleader.New(client, opts)
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start returns a backend on a server of its own, and the raw client.
func start(t testing.TB) (*redisleader.Backend, *redis.Client) {
	t.Helper()
	b, client, _ := startOwned(t)
	return b, client
}

// startOwned is start on a server that the test may harm.
func startOwned(t testing.TB, opts ...testserver.RedisOption) (*redisleader.Backend, *redis.Client, *testserver.Server) {
	t.Helper()
	server := testserver.Redis(t, opts...)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	client := connect(t, server)
	return open(t, client, nil), client, server
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

// info is a line of the server's INFO.
func info(t testing.TB, client *redis.Client, name string) string {
	t.Helper()
	for line := range strings.Lines(client.Info(t.Context()).Val()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	t.Fatalf("INFO has no %s", name)
	return ""
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func TestBackend_Check_ReportsEveryBadOption(t *testing.T) {
	client := connectTo(t, "127.0.0.1:1", "")
	var none *redis.Client
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = cluster.Close() })
	for name, test := range map[string]struct {
		client redis.UniversalClient
		opts   redisleader.Options
		want   []string
	}{
		"nothing":         {client: client},
		"nil client":      {want: []string{"client is nil"}},
		"typed nil":       {client: none, want: []string{"client is nil"}},
		"ring":            {client: ring, want: []string{"redis.Ring"}},
		"brace":           {client: client, opts: redisleader.Options{Prefix: "a{b"}, want: []string{`"a{b"`, "brace"}},
		"control":         {client: client, opts: redisleader.Options{Prefix: "a\n"}, want: []string{"control"}},
		"no UTF-8":        {client: client, opts: redisleader.Options{Prefix: "a\xff"}, want: []string{"UTF-8"}},
		"long":            {client: client, opts: redisleader.Options{Prefix: strings.Repeat("a", 257)}, want: []string{"257"}},
		"several":         {opts: redisleader.Options{Prefix: "{", MinReplicas: -1}, want: []string{"nil", "brace", "-1"}},
		"short timeout":   {client: client, opts: redisleader.Options{ReplicaTimeout: 1}, want: []string{"1ns"}},
		"long timeout":    {client: client, opts: redisleader.Options{MinReplicas: 1, ReplicaTimeout: time.Hour}, want: []string{"1h"}},
		"cluster replica": {client: cluster, opts: redisleader.Options{MinReplicas: 1}, want: []string{"cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := redisleader.New(test.client, &test.opts)
			err := b.Check()
			if (err != nil) != (len(test.want) > 0) {
				t.Fatalf("Check: %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Check: %v, want it to name %q", err, want)
				}
			}
			if err == nil {
				return
			}
			if kind := backend.KindOf(err); kind != backend.Misconfigured {
				t.Errorf("kind %v", kind)
			}
			if _, again := b.TryAcquire(t.Context(), request("a", time.Minute)); !errors.Is(again, err) {
				t.Errorf("TryAcquire: %v, want the error of Check", again)
			}
		})
	}
}

func TestBackend_TryAcquire_RefusesATTLOutsideItsLimits(t *testing.T) {
	b, _ := start(t)
	limits := b.Limits()
	for _, ttl := range []time.Duration{-1, 0, limits.MinTTL - 1, limits.MaxTTL + 1} {
		_, err := b.TryAcquire(t.Context(), request("a", ttl))
		if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), ttl.String()) {
			t.Errorf("TTL %v: %v", ttl, err)
		}
	}
	lease := win(t, b, request("a", limits.MaxTTL))
	if err := lease.Renew(t.Context(), limits.MinTTL-1); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Renew: %v", err)
	}
	if left := inspect(t, b, "a").Remaining; left < limits.MaxTTL-time.Minute || left > limits.MaxTTL {
		t.Errorf("%v remain of %v", left, limits.MaxTTL)
	}
}

func TestBackend_TryAcquire_SendsNothingWhenItsContextIsOver(t *testing.T) {
	b, client := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := request("a", time.Minute)
	if _, err := b.TryAcquire(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("TryAcquire: %v", err)
	}
	if err := b.Abandon(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("Abandon: %v", err)
	}
	if _, err := b.Inspect(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Inspect: %v", err)
	}
	if err := b.AwaitRelease(ctx, "a", "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("AwaitRelease: %v", err)
	}
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

func TestBackend_TryAcquire_TellsTheHolderAndWritesNothing(t *testing.T) {
	b, client := start(t)
	req := request("nightly", time.Minute)
	req.Metadata = map[string]string{"zone": "a", "quote": `"{`}
	before := time.Now().Add(-time.Minute)
	lease := win(t, b, req)
	changed := info(t, client, "rdb_changes_since_last_save")

	h := holder(t, b, "nightly")
	if h.Owner != "node-1" || h.Fence != lease.Fence() || h.Kept || h.Free() || h.Seen == "" {
		t.Errorf("holder %+v", h)
	}
	if h.Metadata["zone"] != "a" || h.Metadata["quote"] != `"{` || len(h.Metadata) != 2 {
		t.Errorf("metadata %v", h.Metadata)
	}
	if h.Remaining <= 0 || h.Remaining > time.Minute {
		t.Errorf("remaining %v", h.Remaining)
	}
	if h.Since.Before(before) || h.Since.After(time.Now().Add(time.Minute)) {
		t.Errorf("since %v", h.Since)
	}
	if now := info(t, client, "rdb_changes_since_last_save"); now != changed {
		t.Errorf("a losing attempt changed the data: %s, then %s", changed, now)
	}
	if again := inspect(t, b, "nightly"); again.Seen != h.Seen || again.Fence != h.Fence {
		t.Errorf("Inspect: %+v, the attempt: %+v", again, h)
	}
}
