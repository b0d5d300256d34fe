package backendtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

func waiterCases() []testCase {
	return []testCase{
		{
			name: "Waiter_WakesOnRelease",
			rule: abilityWaiter,
			says: "AwaitRelease returns nil when another client releases the key",
			run:  wakesOnRelease,
		},
		{
			name: "Waiter_WakesOnAbandon",
			rule: abilityWaiter,
			says: "AwaitRelease returns nil when another client abandons the attempt that holds the key",
			run:  wakesOnAbandon,
		},
		{
			name: "Waiter_WakesAll",
			rule: abilityWaiter,
			says: "a release wakes every waiter on every client",
			run:  wakesAll,
		},
		{
			name: "Waiter_ComparesWithSeen",
			rule: abilityWaiter,
			says: "AwaitRelease returns at once if the record is no longer as it was seen",
			run:  comparesWithSeen,
		},
		{
			name: "Waiter_Waits",
			rule: abilityWaiter,
			says: "AwaitRelease waits while the key is held",
			run:  waits,
		},
		{
			name: "Waiter_EndsWithItsContext",
			rule: abilityWaiter,
			says: "AwaitRelease returns an error that wraps its context's soon after that ends, Blocking or not",
			run:  endsWithItsContext,
		},
	}
}

// waiter returns the ability of d. A driver may learn that its store tells nobody only when it is asked.
func (t *caseT) waiter(d backend.Driver) backend.Waiter {
	t.Helper()
	w := ability[backend.Waiter](t, d)
	g := t.win(d, t.request("asked", t.ttl()))
	ctx, cancel := context.WithTimeout(t.Context(), t.ttl())
	defer cancel()
	// The record is not as it was seen, so there is nothing to wait for.
	if err := w.AwaitRelease(ctx, "asked", g.req.Token); errors.Is(err, errors.ErrUnsupported) {
		t.lack(d.Name() + " does not offer the ability Waiter here")
	}
	t.release(g, 0)
	return w
}

// woken runs AwaitRelease aside and returns a function that waits for its nil.
func (t *caseT) woken(w backend.Waiter, seen string) (wait func()) {
	done := make(chan bool, 1)
	go func() {
		err := w.AwaitRelease(t.Context(), "job", seen)
		if err != nil {
			t.Errorf("AwaitRelease: %v, want nil", err)
		}
		done <- err == nil
	}()
	return func() {
		t.Helper()
		t.await("AwaitRelease returns after the key became free", done)
	}
}

func wakesOnRelease(t *caseT) {
	t.wakes(func(g grant) { t.release(g, 0) })
}

func wakesOnAbandon(t *caseT) {
	t.wakes(func(g grant) { t.abandoned(g.driver, g.req) })
}

// wakes ends a lease at different moments after the waiter started: before it subscribes, meanwhile, and after.
func (t *caseT) wakes(end func(g grant)) {
	a, b := t.pair()
	w := t.waiter(b)
	for i := range 20 {
		g := t.win(a, t.request("job", t.long()))
		wait := t.woken(w, t.seen(b, i%2 == 0))
		t.pause(time.Duration(i) * time.Millisecond)
		end(g)
		wait()
	}
}

// seen is what a client has seen of the key: by an attempt if that tells, else by Inspect.
func (t *caseT) seen(d backend.Driver, byAttempt bool) string {
	t.Helper()
	if byAttempt {
		if h := t.refused(d, t.request("job", t.long())); !h.Free() {
			return h.Seen
		}
	}
	return t.inspect(d, "job").Seen
}

func wakesAll(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	var waits []func()
	for _, d := range []backend.Driver{a, b} {
		w := t.waiter(d)
		for range 10 {
			waits = append(waits, t.woken(w, t.seen(d, false)))
		}
	}
	t.pause(t.ttl() / 4) // for most of them to be waiting
	t.release(g, 0)
	for _, wait := range waits {
		wait()
	}
}

func comparesWithSeen(t *caseT) {
	a, b := t.pair()
	w := t.waiter(b)
	g := t.win(a, t.request("job", t.long()))
	seen := t.seen(b, false)
	t.release(g, 0)
	t.woken(w, seen)() // released
	next := t.win(a, t.request("job", t.long()))
	t.woken(w, seen)() // and held by the next
	seen = t.seen(b, false)
	t.release(next, t.ttl())
	t.pauseUntil(time.Now().Add(t.ttl()))
	t.release(t.taken(a, t.request("job", t.long()), time.Time{}), 0)
	t.woken(w, seen)()
}

// waits allows for early returns, which the contract does, but not always.
func waits(t *caseT) {
	a, b := t.pair()
	w := t.waiter(b)
	t.win(a, t.request("job", t.long()))
	seen := t.seen(b, false)
	for range attempts {
		ctx, cancel := context.WithTimeout(t.Context(), t.ttl()/2)
		err := w.AwaitRelease(ctx, "job", seen)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatalf("AwaitRelease: %v, want nil or an error that wraps the context's", err)
		}
	}
	t.Errorf("AwaitRelease returned early %d times out of %d, and the key was held all the time", attempts, attempts)
}

func endsWithItsContext(t *caseT) {
	a, b := t.pair()
	w := t.waiter(b)
	t.win(a, t.request("job", t.long()))
	seen := t.seen(b, false)
	t.endsWaiters(w, seen)
	t.promptly("AwaitRelease with a context that is over returns", func() {
		if err := w.AwaitRelease(t.canceled(), "job", seen); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("AwaitRelease: %v, want an error that wraps %q", err, context.Canceled)
		}
	})
}

// endsWaiters starts waiters on a key that stays held, ends their context, and waits for them.
func (t *caseT) endsWaiters(w backend.Waiter, seen string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiters sync.WaitGroup
	for range 5 {
		waiters.Go(func() {
			for ctx.Err() == nil { // it may return early
				err := w.AwaitRelease(ctx, "job", seen)
				if ctx.Err() != nil && err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("AwaitRelease: %v, want an error that wraps %q", err, context.Canceled)
				}
				t.pause(t.tick())
			}
		})
	}
	t.pause(t.ttl() / 4)
	cancel()
	t.promptly("AwaitRelease returns after its context ended", waiters.Wait)
}
