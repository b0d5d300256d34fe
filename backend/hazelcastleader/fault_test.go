package hazelcastleader_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/hazelcastleader"
)

// late is by how much a call may outlive its context, for which the client's pauses between its tries are the reason.
const late = 2 * time.Second

// through returns a backend whose connection goes through a proxy, the proxy, and another backend on the same map.
func through(t testing.TB) (b *hazelcastleader.Backend, proxy *netfault.Proxy, other *hazelcastleader.Backend) {
	t.Helper()
	server := lone.get(t)
	proxy = behind(t, server.Addr())
	opts := &hazelcastleader.Options{Map: fresh()}
	b = open(t, connectThrough(t, proxy.Addr()), opts)
	inspect(t, b, "warm-up") // so that the faults hit no handshake
	return b, proxy, open(t, connect(t, server.Addr()), opts)
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

// briefly runs a call with a context that ends soon.
func briefly(t testing.TB, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	return call(ctx)
}

func TestBackend_FrozenConnection_EndsACallSoonAfterItsContext(t *testing.T) {
	b, proxy, _ := through(t)
	if l := b.Limits(); !l.Blocking || l.Punctual {
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
	} {
		ends := func(how string, ctx context.Context, want error) {
			began := time.Now()
			err := call(ctx)
			if !errors.Is(err, want) {
				t.Errorf("%s at a %s: %v, want an error that wraps %q", name, how, err, want)
			}
			if took := time.Since(began); took > brief+late {
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

// A member that is silent is given up after a while, also by a call that has more time.
func TestBackend_SilentMember_IsUnavailable(t *testing.T) {
	b, proxy, _ := through(t)
	proxy.Freeze()
	defer proxy.Thaw()
	began := time.Now()
	_, err := b.TryAcquire(t.Context(), request("a", long))
	kind(t, "TryAcquire", err, backend.Unavailable)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("TryAcquire gave up after %v", took)
	}
}

// swallow loses the answer to the next request with a word in it, and the connection.
func swallow(t testing.TB, proxy *netfault.Proxy, word string) (lost func()) {
	t.Helper()
	trap := proxy.SwallowReply(contains(word))
	var cutting sync.WaitGroup
	cutting.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := trap.Wait(ctx); err != nil {
			t.Error(err)
		}
		proxy.Cut()
		proxy.Mend()
	})
	return cutting.Wait
}

// A write is looked for after its answer was lost, and known by its nonce.
func TestBackend_LostReply_IsFoundToBeApplied(t *testing.T) {
	b, proxy, other := through(t)
	req := request("a", long)
	lost := swallow(t, proxy, req.Token)
	lease := win(t, b, req)
	lost()
	if h := inspect(t, other, "a"); h.Fence != lease.Fence() {
		t.Errorf("held by %+v, want the fence %d", h, lease.Fence())
	}
	lost = swallow(t, proxy, `"until"`)
	renew(t, lease, 2*long)
	lost()
	if h := inspect(t, other, "a"); h.Remaining < 2*long-patience {
		t.Errorf("%v remain after a renewal whose answer was lost", h.Remaining)
	}
	lost = swallow(t, proxy, `"spent"`)
	release(t, lease, 0)
	lost()
	if h := inspect(t, other, "a"); !h.Free() {
		t.Errorf("held by %+v after a release whose answer was lost", h)
	}
}

func TestBackend_LostReply_IsRepeatedWithTheSameFence(t *testing.T) {
	b, proxy, other := through(t)
	req := request("a", long)
	trap := proxy.SwallowReply(contains(req.Token))
	err := briefly(t, func(ctx context.Context) error { _, err := b.TryAcquire(ctx, req); return err })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("TryAcquire: %v", err)
	}
	caught(t, trap)
	proxy.Cut()
	proxy.Mend()
	held := inspect(t, other, "a")
	if held.Free() {
		t.Fatal("the attempt was not applied")
	}
	if lease := win(t, b, req); lease.Fence() != held.Fence {
		t.Errorf("fence %d, and %d in the entry", lease.Fence(), held.Fence)
	}
}

func TestBackend_Abandon_StopsAnAttemptThatArrivesLater(t *testing.T) {
	for _, key := range []string{"fresh", "used"} {
		b, proxy, other := through(t)
		if key == "used" {
			release(t, win(t, b, request(key, long)), 0)
		}
		req := request(key, long)
		trap := proxy.HoldRequest(contains(req.Token))
		err := briefly(t, func(ctx context.Context) error { _, err := b.TryAcquire(ctx, req); return err })
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
		remainsFree(t, b, key)
		if _, err := other.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrLost) {
			t.Errorf("%s: a spent token: %v, want ErrLost", key, err)
		}
	}
}

// remainsFree looks a few times, by the connection that the late request took.
func remainsFree(t testing.TB, b backend.Driver, key string) {
	t.Helper()
	for range 20 {
		if h := inspect(t, b, key); !h.Free() {
			t.Fatalf("the late attempt opened a term: %+v", h)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A renewal that arrives after its lease has another holder changes nothing.
func TestLease_Renew_ThatArrivesLater_DoesNotDisturbASuccessor(t *testing.T) {
	b, proxy, other := through(t)
	lease := win(t, b, request("a", long))
	held := inspect(t, other, "a")
	trap := proxy.HoldRequest(contains(`"until"`))
	err := briefly(t, func(ctx context.Context) error { return lease.Renew(ctx, 2*long) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Renew: %v", err)
	}
	caught(t, trap)
	if err := other.Break(t.Context(), "a", held.Fence); err != nil {
		t.Fatal(err)
	}
	next := win(t, other, request("a", long))
	if err := trap.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if h := inspect(t, b, "a"); h.Fence != next.Fence() {
			t.Fatalf("the late renewal left %+v, want the fence %d", h, next.Fence())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := lease.Renew(t.Context(), long); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew: %v, want ErrLost", err)
	}
}

// An attempt on a group whose outcome is unknown may win its slot later. The next one with the token has to have that
// slot, and no other one.
func TestBackend_TryAcquireSlot_AfterAnUnknownOutcome_HasOneSlot(t *testing.T) {
	const slots = 5
	for _, early := range []bool{false, true} {
		b, proxy, other := through(t)
		hazelcastleader.ShareAttempts(b, other)
		req := request("group", long)
		trap := proxy.HoldRequest(contains(req.Token))
		err := briefly(t, func(ctx context.Context) error { _, _, err := b.TryAcquireSlot(ctx, req, slots); return err })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("TryAcquireSlot: %v", err)
		}
		caught(t, trap)
		arrive := func() {
			if err := trap.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			inspect(t, b, "group") // by the connection that the late request took
		}
		if early {
			arrive()
		}
		_, slot, err := other.TryAcquireSlot(t.Context(), req, slots)
		if err != nil {
			t.Fatal(err)
		}
		if !early {
			arrive()
		}
		for range 10 {
			for i := range slots {
				if h := inspect(t, other, backend.SlotKey("group", i)); h.Free() != (i != slot) {
					t.Fatalf("early %v: slot %d is held by %+v, and the token has slot %d", early, i, h, slot)
				}
			}
		}
	}
}

func TestBackend_FailingAttempts_LeaveNoGoroutine(t *testing.T) {
	b, proxy, other := through(t)
	lease := win(t, b, request("a", long))
	before := runtime.NumGoroutine()
	fail := func() {
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
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
	fail()
	proxy.Thaw()
	proxy.Drop()
	fail()
	proxy.Mend() // which resets the connection
	patiently(t, "the backend works again", func(ctx context.Context) error { return lease.Renew(ctx, long) })
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+10 })
	if err := other.Abandon(t.Context(), request("b", long)); err != nil {
		t.Error(err)
	}
}

func TestBackend_MemberAway_IsUnavailableInOneLine(t *testing.T) {
	server := owned(t)
	b, _ := startOn(t, connect(t, server.Addr()))
	lease := win(t, b, request("a", long))
	server.Kill9(t)
	var calls sync.WaitGroup
	defer calls.Wait()
	for name, call := range map[string]func(ctx context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("b", long)); return err },
		"Renew":      func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":    func(ctx context.Context) error { return lease.Release(ctx, 0) },
	} {
		calls.Go(func() {
			err := call(t.Context())
			kind(t, name, err, backend.Unavailable)
			if err != nil && strings.ContainsAny(err.Error(), "\n\t") {
				t.Errorf("%s: the text has more than a line: %q", name, err)
			}
		})
	}
}
