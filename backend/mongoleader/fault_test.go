package mongoleader_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/testserver"
)

// through returns a backend whose connections go through a proxy, the proxy, and another backend on the same database.
func through(t testing.TB) (b *mongoleader.Backend, proxy *netfault.Proxy, other *mongoleader.Backend) {
	t.Helper()
	server := testserver.Mongo(t)
	proxy = behind(t, server)
	db := database(t, server, connect(t, server))
	b = open(t, connectTo(t, server, proxy.Addr()).Database(db.Name()), nil)
	inspect(t, b, "warm-up") // so that the faults hit no handshake
	return b, proxy, open(t, db, nil)
}

func contains(word string) func(request []byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(word)) }
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

// The driver ends a call with its context, at the deadline and at a cancellation, hence no Limits.Blocking.
func TestBackend_FrozenConnection_EndsACallWithItsContext(t *testing.T) {
	b, proxy, _ := through(t)
	if l := b.Limits(); l.Blocking || l.Punctual {
		t.Errorf("limits %+v", l)
	}
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
		"TryAcquireSlot": func(ctx context.Context) error {
			_, _, err := b.TryAcquireSlot(ctx, request("b", long), 3)
			return err
		},
		"GetRecords": func(ctx context.Context) error { _, _, err := b.GetRecords(ctx, "a!b/"); return err },
		"Advise":     func(ctx context.Context) error { _, err := b.Advise(ctx); return err },
		"Migrate":    func(ctx context.Context) error { return b.Migrate(ctx) },
	} {
		ends := func(how string, ctx context.Context, want error) {
			began := time.Now()
			err := call(ctx)
			if !errors.Is(err, want) {
				t.Errorf("%s at a %s: %v, want an error that wraps %q", name, how, err, want)
			}
			kind(t, name+" at a "+how, err, backend.Unavailable)
			if took := time.Since(began); took > brief+2*time.Second {
				t.Errorf("%s went on for %v after a %s", name, took-brief, how)
			}
		}
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			ends("deadline", ctx, context.DeadlineExceeded)
		})
		calls.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(brief, cancel)
			ends("cancellation", ctx, context.Canceled)
		})
	}
}

func TestBackend_LostReply_IsRepeatedWithTheSameFence(t *testing.T) {
	b, proxy, other := through(t)
	release(t, win(t, b, request("a", long)), 0)
	req := request("a", long)
	trap := proxy.SwallowReply(contains("findAndModify"))
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if _, err := b.TryAcquire(ctx, req); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("TryAcquire: %v", err)
	}
	caught(t, trap)
	held := inspect(t, other, "a")
	if held.Free() {
		t.Fatal("the attempt was not applied")
	}
	lease := win(t, b, req)
	if lease.Fence() != held.Fence {
		t.Errorf("fence %d, and %d in the document", lease.Fence(), held.Fence)
	}

	trap = proxy.SwallowReply(contains("renewals"))
	ctx, cancel = context.WithTimeout(t.Context(), brief)
	defer cancel()
	if err := lease.Renew(ctx, 2*long); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Renew: %v", err)
	}
	caught(t, trap)
	renew(t, lease, long)
	if h := inspect(t, other, "a"); h.Remaining < 2*long-patience {
		t.Errorf("%v remain after a renewal whose answer was lost", h.Remaining)
	}
}

func TestBackend_Abandon_StopsAnAttemptThatArrivesLater(t *testing.T) {
	for _, key := range []string{"fresh", "used"} {
		b, proxy, other := through(t)
		if key == "used" {
			release(t, win(t, other, request(key, long)), 0)
		}
		req := request(key, long)
		trap := proxy.HoldRequest(contains("findAndModify"))
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
		if err := trap.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		// It arrives before the next command of the same server can see it; twenty looks are enough to be sure.
		for range 20 {
			if h := inspect(t, other, key); !h.Free() {
				t.Fatalf("the late attempt opened a term: %+v", h)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestBackend_FailingAttempts_LeaveNoConnectionAndNoGoroutine(t *testing.T) {
	b, proxy, other := through(t)
	lease := win(t, b, request("a", long))
	before, connections := runtime.NumGoroutine(), proxy.Connections()
	fail := func(n, atOnce int, within time.Duration) {
		var calls sync.WaitGroup
		for range atOnce {
			calls.Go(func() {
				for range n / atOnce {
					ctx, cancel := context.WithTimeout(t.Context(), within)
					if _, err := b.TryAcquire(ctx, request("b", long)); err == nil {
						t.Error("an attempt over a broken connection succeeded")
					}
					cancel()
				}
			})
		}
		calls.Wait()
	}
	proxy.Freeze()
	fail(500, 10, 20*time.Millisecond)
	proxy.Thaw()
	proxy.Cut()
	fail(500, 10, 20*time.Millisecond)
	proxy.Mend()
	eventually(t, "the backend works again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return lease.Renew(ctx, long) == nil
	})
	eventually(t, "no connection is left but those of the client", func() bool { return proxy.Connections() <= connections+2 })
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+10 })
	if err := other.Abandon(t.Context(), request("b", long)); err != nil {
		t.Error(err)
	}
}

func TestBackend_ServerAway_IsUnavailable(t *testing.T) {
	server := owned(t)
	b := open(t, database(t, server, connect(t, server)), nil)
	lease := win(t, b, request("a", long))
	server.Kill9(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("b", long)); return err },
		"Renew":      func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":    func(ctx context.Context) error { return lease.Release(ctx, 0) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		kind(t, name, call(ctx), backend.Unavailable)
		cancel()
	}
	server.Restart(t)
	eventually(t, "the lease is renewed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return lease.Renew(ctx, long) == nil
	})
}
