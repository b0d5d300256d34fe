package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
)

// untilDeadline applies nothing, does not notice a cancellation, and answers when the deadline of ctx has come.
func untilDeadline(ctx context.Context, _ func() error) error {
	deadline, _ := ctx.Deadline()
	time.Sleep(time.Until(deadline))
	return context.DeadlineExceeded
}

// punctualDriver keeps deadlines, but misses cancellations.
func punctualDriver() *driver {
	d := newDriver()
	d.limits.Blocking, d.limits.Punctual = true, true
	return d
}

// swiftElector is one whose store has just answered swiftly.
func swiftElector(t *testing.T, d *driver) *leader.Single {
	t.Helper()
	e := electorOn(t, d)
	for range 2 {
		if r, err := e.RunIfLeader(t.Context(), "first", nothing); err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
	}
	return e
}

func TestPunctualDriver_ACallEndsWithin100MillisecondsOfItsContext(t *testing.T) {
	for _, cancelled := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := punctualDriver()
			e := swiftElector(t, d)
			d.onVerb(acquires, untilDeadline)
			ctx, cancel := context.WithCancelCause(t.Context())
			began := time.Now()
			time.AfterFunc(cancelled, func() { cancel(errAction) })
			_, err := e.RunIfLeader(ctx, "a", nothing)
			wantIs(t, err, context.Canceled, errAction)
			if took := time.Since(began) - cancelled; took > 100*time.Millisecond {
				t.Errorf("took %v after its context ended", took)
			}
			time.Sleep(2 * lease) // until the last answer
		})
	}
}

func TestPunctualDriver_ACallWhoseContextEndedIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := punctualDriver()
		e := swiftElector(t, d)
		d.onVerb(acquires, untilDeadline)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		before := d.count(acquires)
		r, err := e.RunIfLeader(ctx, "a", nothing)
		wantIs(t, err, context.Canceled)
		synctest.Wait()
		if n := d.count(acquires) - before; n != 1 || r.Attempts != 1 {
			t.Errorf("%d requests, and %d attempts in the result, want 1", n, r.Attempts)
		}
		time.Sleep(2 * lease) // until the last answer
	})
}

func TestPunctualDriver_AStoreThatBecomesSlowIsAskedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := punctualDriver()
		e := swiftElector(t, d)
		d.onVerb(acquires, func(ctx context.Context, apply func() error) error {
			err := apply()
			deadline, _ := ctx.Deadline()
			select {
			case <-time.After(time.Second):
				return err
			case <-time.After(time.Until(deadline)):
				return context.DeadlineExceeded
			}
		})
		began := time.Now()
		r, err := e.RunIfLeader(t.Context(), "a", works(time.Second))
		if err != nil || !r.OK() || r.Attempts != 2 {
			t.Fatalf("got %+v, %v, want elected after two requests", r, err)
		}
		log := d.log(acquires)
		one, two := log[len(log)-2], log[len(log)-1]
		if one.token != two.token || time.Since(began) > 2100*time.Millisecond {
			t.Errorf("got %v and %v after %v, want a repetition with the same token", one, two, time.Since(began))
		}
	})
}

func TestPunctualDriver_AnAdoptedLeaseIsTrustedFromTheSecondRequestOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := punctualDriver()
		e := swiftElector(t, d)
		began := d.count(acquires)
		d.on(func(r request) answer {
			if r.verb == acquires && r.key == "a" && r.n == 1 {
				return untilDeadline
			}
			return nil
		})
		end, _ := endOf(t, e, leader.WithoutAutoExtend())
		log := d.log(acquires)[began:]
		if len(log) != 2 {
			t.Fatalf("%d requests, want 2", len(log))
		}
		if want := log[1].at + deadline; end != want {
			t.Errorf("trusted until %v, want %v", end, want)
		}
	})
}

func TestPunctualDriver_TheStoreIsDownWithinOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := punctualDriver()
		e := swiftElector(t, d)
		d.on(func(request) answer { return untilDeadline })
		for range 3 {
			began := time.Now()
			_, err := e.RunIfLeader(t.Context(), "a", nothing)
			wantIs(t, err, leader.ErrUnavailable)
			if took := time.Since(began); took > attemptBound+100*time.Millisecond {
				t.Errorf("took %v, want one attempt", took)
			}
		}
		time.Sleep(2 * lease) // until the last answer
	})
}

func TestInProcessDriver_ACancellationDuringTheReleaseOrphansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.limits.InProcess = true
		ctx, cancel := context.WithCancel(t.Context())
		d.first(1, releases, func(ctx context.Context, _ func() error) error {
			cancel()
			return ctx.Err()
		})
		if r, err := electorOn(t, d).RunIfLeader(ctx, "a", nothing); err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
		wantFree(t, d.store, "a")
	})
}
