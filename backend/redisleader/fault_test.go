package redisleader_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

const readTimeout = time.Second

// behind returns a backend whose connections go through a proxy, and the proxy.
func behind(t testing.TB, server *testserver.Server) (*redisleader.Backend, *netfault.Proxy) {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: readTimeout})
	t.Cleanup(func() { _ = client.Close() })
	b := open(t, client, nil)
	inspect(t, b, "warm-up") // so that the faults hit no handshake
	return b, proxy
}

func isScript(request []byte) bool {
	return bytes.Contains(bytes.ToLower(request), []byte("evalsha"))
}

// caught waits for the trap.
func caught(t testing.TB, trap *netfault.Trap) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := trap.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// The client sends a command again when its answer does not come.
func TestBackend_LostReply_IsRepeatedByTheClientWithoutHarm(t *testing.T) {
	server := testserver.Redis(t)
	b, proxy := behind(t, server)
	other := open(t, connect(t, server), nil)
	lose := func(call func()) {
		t.Helper()
		trap := proxy.SwallowReply(isScript)
		call()
		caught(t, trap)
	}
	// A script must be in the cache, or its EVAL is not what the trap catches.
	release(t, win(t, b, request("a", long)), 0)
	renew(t, win(t, b, request("b", long)), long)
	release(t, win(t, b, request("c", long)), long)
	if err := b.Abandon(t.Context(), request("d", long)); err != nil {
		t.Fatal(err)
	}

	var lease backend.Lease
	lose(func() { lease = win(t, b, request("a", long)) })
	if h := inspect(t, other, "a"); h.Fence != lease.Fence() {
		t.Errorf("fence %d, and %d in the record", lease.Fence(), h.Fence)
	}
	lose(func() { renew(t, lease, 2*long) })
	lose(func() { release(t, lease, time.Minute) })
	if h := inspect(t, other, "a"); !h.Kept || h.Remaining > time.Minute {
		t.Errorf("after the release: %+v", h)
	}
	lose(func() { release(t, lease, 0) })
	if !inspect(t, other, "a").Free() {
		t.Error("not free")
	}
	req := request("a", long)
	win(t, b, req)
	lose(func() {
		if err := b.Abandon(t.Context(), req); err != nil {
			t.Error(err)
		}
	})
	if !inspect(t, other, "a").Free() {
		t.Error("not free")
	}
}

func TestBackend_FrozenConnection_EndsACallWithinOneReadTimeoutOfItsContext(t *testing.T) {
	b, proxy := behind(t, testserver.Redis(t))
	lease := win(t, b, request("a", long))
	proxy.Freeze()
	defer proxy.Thaw()
	var calls sync.WaitGroup
	defer calls.Wait()
	for name, call := range map[string]func(ctx context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("b", long)); return err },
		"Inspect":    func(ctx context.Context) error { _, err := b.Inspect(ctx, "a"); return err },
		"Renew":      func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":    func(ctx context.Context) error { return lease.Release(ctx, 0) },
		"Abandon":    func(ctx context.Context) error { return b.Abandon(ctx, request("b", long)) },
	} {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			began := time.Now()
			err := call(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want an error that wraps the context's", name, err)
			}
			kind(t, name, err, backend.Unavailable)
			if took := time.Since(began); took > 3*readTimeout {
				t.Errorf("%s took %v: the client went on after its context had ended", name, took)
			}
		})
	}
}

func TestBackend_FrozenConnection_DoesNotHoldUpAwaitRelease(t *testing.T) {
	for name, connected := range map[string]bool{"before the subscription": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			server := testserver.Redis(t)
			b, proxy := behind(t, server)
			other := open(t, connect(t, server), nil)
			lease := win(t, other, request("a", long))
			seen := holder(t, b, "a").Seen
			if connected {
				waiting(t, await(t.Context(), b, "a", seen))
				subscribed(t, connect(t, server), 1)
			}
			proxy.Freeze()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			waits := []<-chan error{await(ctx, b, "a", seen), await(ctx, b, "new", seen)}
			waiting(t, waits[0])
			began := time.Now()
			cancel()
			for _, wait := range waits {
				if err := result(t, "the end of the context", wait); !errors.Is(err, context.Canceled) {
					t.Errorf("AwaitRelease: %v", err)
				}
			}
			if took := time.Since(began); took > readTimeout/2 {
				t.Errorf("it took %v", took)
			}
			proxy.Thaw()
			release(t, lease, 0)
			eventually(t, "waiters work again after the thaw", func() bool {
				return b.AwaitRelease(t.Context(), "a", seen) == nil
			})
		})
	}
}

func TestBackend_Abandon_StopsAnAttemptThatArrivesLater(t *testing.T) {
	server := testserver.Redis(t)
	b, proxy := behind(t, server)
	other := open(t, connect(t, server), nil)
	for _, key := range []string{"fresh", "used"} {
		if key == "used" {
			release(t, win(t, other, request(key, long)), 0)
		}
		release(t, win(t, b, request("script-cache", long)), 0)
		req := request(key, long)
		trap := proxy.HoldRequest(isScript)
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		_, err := b.TryAcquire(ctx, req)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("TryAcquire: %v", err)
		}
		caught(t, trap)
		if err := other.Abandon(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		calls := scripts(t, connect(t, server))
		if err := trap.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the late attempt has arrived", func() bool { return scripts(t, connect(t, server)) > calls })
		if h := inspect(t, other, key); !h.Free() {
			t.Errorf("the late attempt opened a term: %+v", h)
		}
	}
}

func TestBackend_KeepsDeadlinesWhereTheClientDoes(t *testing.T) {
	server := testserver.Redis(t)
	deaf, _ := behind(t, server)
	if l := deaf.Limits(); !l.Blocking || l.Punctual {
		t.Errorf("limits %+v of a client that ignores deadlines", l)
	}
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b := open(t, connectTo(t, proxy.Addr(), ""), nil)
	if l := b.Limits(); !l.Punctual {
		t.Fatalf("limits %+v of a client that keeps deadlines", l)
	}
	inspect(t, b, "warm-up")
	proxy.Freeze()
	defer proxy.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := b.TryAcquire(ctx, request("a", long)); err == nil {
		t.Fatal("a frozen server answered")
	}
	// The client's own timeout is 5 s.
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("returned after %v, want soon after 100ms", took)
	}
}
