package hazelcastleader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/hazelcastleader"
)

// await waits for a key in the background, after which the channel has the error.
func await(ctx context.Context, b backend.Waiter, key, seen string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.AwaitRelease(ctx, key, seen) }()
	return done
}

// waiting is await once nothing is told any more of what happened before.
func waiting(t testing.TB, b backend.Waiter, key, seen string) <-chan error {
	t.Helper()
	var done <-chan error
	eventually(t, "it waits", func() bool {
		done = await(t.Context(), b, key, seen)
		select {
		case err := <-done:
			t.Log("woken:", err)
			return false
		case <-time.After(brief):
			return true
		}
	})
	return done
}

// woken checks that a waiter returns nil before the watchdog.
func woken(t testing.TB, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(patience):
		t.Fatalf("%s: nobody was woken", what)
	}
}

// over waits until a waiter has returned.
func over(t testing.TB, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Log("woken:", err)
	case <-time.After(patience):
		t.Fatal("a waiter was not told that the connection was lost")
	}
}

// asleep checks that a waiter waits for a while.
func asleep(t testing.TB, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Errorf("%s: woken, %v", what, err)
	case <-time.After(brief):
	}
}

func TestBackend_AwaitRelease_WakesForAReleaseAndNotForARenewal(t *testing.T) {
	client := connect(t, lone.get(t).Addr())
	opts := &hazelcastleader.Options{Map: fresh()}
	a, b := open(t, client, opts), open(t, client, opts)
	lease, other := win(t, a, request("job", long)), win(t, a, request("other", long))
	done := waiting(t, b, "job", holder(t, b, "job").Seen)
	renew(t, lease, 2*long)
	release(t, other, 0)
	asleep(t, "after a renewal, and the release of another key", done)
	release(t, lease, 0)
	woken(t, "after a release", done)
	woken(t, "of a free key", await(t.Context(), b, "job", holder(t, b, hold(t, a, "held")).Seen))
}

// hold takes a key and returns it.
func hold(t testing.TB, b backend.Driver, key string) string {
	t.Helper()
	win(t, b, request(key, long))
	return key
}

func TestBackend_AwaitRelease_WakesForWhatAnOperatorDoes(t *testing.T) {
	b, m := start(t)
	for what, do := range map[string]func() error{
		"a deletion": func() error { return m.Delete(t.Context(), "job") },
		"a clearing": func() error { return m.Clear(t.Context()) },
		"a break":    func() error { return b.Break(t.Context(), "job", inspect(t, b, "job").Fence) },
	} {
		win(t, b, request("job", long))
		done := waiting(t, b, "job", inspect(t, b, "job").Seen)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		woken(t, what, done)
	}
}

// A frozen connection does not keep a waiter longer than its context.
func TestBackend_AwaitRelease_EndsWithItsContext(t *testing.T) {
	b, proxy, _ := through(t)
	seen := inspect(t, b, hold(t, b, "job")).Seen
	proxy.Freeze()
	defer proxy.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	began := time.Now()
	if err := b.AwaitRelease(ctx, "job", seen); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AwaitRelease: %v", err)
	}
	if took := time.Since(began); took > brief+late {
		t.Errorf("it went on for %v", took-brief)
	}
}

// The client does not register a listener anew in each of its modes after it had lost all members.
func TestBackend_AwaitRelease_IsToldAfterTheConnectionWasLost(t *testing.T) {
	b, proxy, other := through(t)
	lease := win(t, other, request("job", long))
	seen := inspect(t, b, "job").Seen
	done := waiting(t, b, "job", seen)
	proxy.Cut()
	proxy.Mend()
	over(t, done) // whatever it says: nothing may have been told meanwhile
	patiently(t, "the connection is there again", func(ctx context.Context) error { _, err := b.Inspect(ctx, "job"); return err })
	done = waiting(t, b, "job", seen)
	release(t, lease, 0)
	woken(t, "after a release", done)
}

func TestBackend_Watch_TellsEachHolder(t *testing.T) {
	b, _ := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var lease backend.Lease
	step := 0
	for h, err := range b.Watch(ctx, "job") {
		if err != nil {
			t.Fatal(err)
		}
		switch step {
		case 0:
			if !h.Free() {
				t.Fatalf("at first %+v", h)
			}
			lease = win(t, b, request("job", long))
		case 1:
			if h.Fence != lease.Fence() || h.Kept {
				t.Fatalf("after an acquisition %+v, want the fence %d", h, lease.Fence())
			}
			release(t, lease, 200*time.Millisecond)
		case 2:
			if !h.Kept {
				t.Fatalf("after a release %+v, want it kept", h)
			}
		case 3: // which nobody tells
			if !h.Free() {
				t.Fatalf("at the end %+v", h)
			}
			return
		}
		step++
	}
	t.Errorf("it ended after %d holders", step)
}
