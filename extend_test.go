package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// acquired returns a lease that is released when the test ends.
func acquired(t *testing.T, e leader.Elector, opts ...leader.RunOption) *leader.Lease {
	t.Helper()
	l, err := e.Acquire(t.Context(), "a", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(t.Context()) })
	return l
}

// wantTrustedFor asserts how long a lease is trusted from now on.
func wantTrustedFor(t *testing.T, l *leader.Lease, want time.Duration) {
	t.Helper()
	if got := time.Until(l.TrustedUntil()); got != want {
		t.Errorf("trusted for %v, want %v", got, want)
	}
}

func TestLease_Extend_LengthensTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d), leader.WithoutAutoExtend())
		time.Sleep(lease / 2)
		if err := l.Extend(t.Context(), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		wantTrustedFor(t, l, 10*time.Minute-margin)
		if h := holderOf(t, d.store, "a"); h.Remaining != 10*time.Minute {
			t.Errorf("the store has it for %v, want 10m", h.Remaining)
		}
		time.Sleep(10*time.Minute - margin - 1)
		if err := l.Err(); err != nil {
			t.Errorf("lost before its new end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		wantIs(t, l.Err(), leader.ErrExpired)
	})
}

func TestLease_Extend_KeepsTheContextAliveBeyondTheFirstEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electorOn(t, newDriver())
		began := time.Now()
		_, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			done := ctx.Done() // its timer is for the first end
			l, _ := leader.LeaseFrom(ctx)
			if err := l.Extend(ctx, time.Hour); err != nil {
				t.Error(err)
			}
			<-done
			wantAt(t, "over", time.Since(began), time.Hour-time.Hour/1000, 0)
			return nil
		}, leader.WithoutAutoExtend())
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestLease_Extend_ToLessMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d), leader.WithoutAutoExtend())
		if err := l.Extend(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		wantTrustedFor(t, l, deadline)
		if h := holderOf(t, d.store, "a"); h.Remaining != lease {
			t.Errorf("the store has it for %v, want %v", h.Remaining, lease)
		}
	})
}

func TestLease_Extend_AfterALossIsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d), leader.WithoutAutoExtend())
		time.Sleep(deadline)
		wantIs(t, l.Extend(t.Context(), time.Hour), leader.ErrLeaseLost, leader.ErrExpired)
		if n := d.count(renews); n != 0 {
			t.Errorf("%d renewals of a lost lease, want none", n)
		}
	})
}

func TestLease_Extend_AfterReleaseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquired(t, electorOn(t, newDriver()))
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantIs(t, l.Extend(t.Context(), time.Hour), leader.ErrLeaseLost, leader.ErrReleased)
	})
}

func TestLease_Extend_LearnsOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d))
		d.onVerb(renews, fails(backend.ErrLost))
		wantIs(t, l.Extend(t.Context(), time.Hour), leader.ErrLeaseLost, leader.ErrTakenOver)
		wantIs(t, l.Err(), leader.ErrTakenOver)
	})
}

func TestLease_Extend_RefusesWhatMakesNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.limits.MaxTTL = time.Hour
		l := acquired(t, electorOn(t, d))
		for _, bad := range []time.Duration{0, -time.Second, time.Hour + 1} {
			err := l.Extend(t.Context(), bad)
			wantIs(t, err, leader.ErrInvalidOption)
			wantNames(t, err, bad.String())
		}
		if n := d.count(renews); n != 0 {
			t.Errorf("%d requests for refused extensions, want none", n)
		}
		wantTrustedFor(t, l, deadline)
	})
}

func TestLease_Extend_AFailureIsABackendErrorAndNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d), leader.WithoutAutoExtend())
		d.onVerb(renews, fails(errDown))
		err := l.Extend(t.Context(), time.Hour)
		wantIs(t, err, leader.ErrUnavailable, errDown)
		if errors.Is(err, leader.ErrLeaseLost) || l.Err() != nil {
			t.Errorf("lost by a failed extension: %v, %v", err, l.Err())
		}
		wantTrustedFor(t, l, deadline)
	})
}

func TestLease_Extend_IsBoundedAlsoWhereTheDriverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		d := newDriver()
		d.limits.Blocking = true
		l := acquired(t, electorOn(t, d), leader.WithoutAutoExtend())
		d.onVerb(renews, func(_ context.Context, apply func() error) error {
			<-freed
			return apply()
		})
		began := time.Now()
		err := l.Extend(t.Context(), time.Hour)
		wantAt(t, "given up", time.Since(began), attemptBound, 0)
		wantIs(t, err, leader.ErrUnavailable)
		close(freed)
		synctest.Wait()
		wantTrustedFor(t, l, time.Hour-time.Hour/1000-attemptBound) // the late answer counts, from when it was sent
	})
}

func TestLease_Extend_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d), leader.WithoutAutoExtend())
		d.onVerb(renews, hangs)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errAction)
		defer cancel()
		began := time.Now()
		err := l.Extend(ctx, time.Hour)
		wantAt(t, "given up", time.Since(began), time.Second, 0)
		wantIs(t, err, context.DeadlineExceeded, errAction)
		if l.Err() != nil {
			t.Errorf("lost by a given up extension: %v", l.Err())
		}
	})
}

func TestLease_Extend_IsNeverLessThanTheRestOfTheMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d), leader.WithMinLease(50*time.Second), leader.WithoutAutoExtend())
		time.Sleep(10 * time.Second)
		if err := l.Extend(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if got := d.log(renews)[0].d; got != 40*time.Second {
			t.Errorf("asked for %v, want the rest of the minimum, 40s", got)
		}
	})
}

func TestLease_Extend_WithAFixedTTLIsRenewedUntilThenAlsoWithoutAutoExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.limits.FixedTTL = true
		l := acquired(t, electorOn(t, d), leader.WithoutAutoExtend())
		time.Sleep(lease / 2)
		if err := l.Extend(t.Context(), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if err := l.Err(); err != nil {
			t.Errorf("lost before the end of the extension: %v", err)
		}
		time.Sleep(lease)
		wantIs(t, l.Err(), leader.ErrExpired)
		for _, r := range d.log(renews) {
			if r.d != lease {
				t.Errorf("renewed with a TTL of %v, want %v", r.d, lease)
			}
		}
	})
}

func TestLease_Extend_ALongerExtensionSurvivesTheRenewalsThatFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d))
		if err := l.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease)
		if n := d.count(renews); n < 3 {
			t.Errorf("%d renewals, want the extension and the rhythm", n)
		}
		wantTrustedFor(t, l, time.Hour-time.Hour/1000-lease)
		if h := holderOf(t, d.store, "a"); h.Remaining != time.Hour-lease {
			t.Errorf("the store has it for %v, want %v", h.Remaining, time.Hour-lease)
		}
	})
}

func TestLease_Extend_NeverLeavesLessThanTheMarginOfTheLease(t *testing.T) {
	for _, explicit := range []time.Duration{margin, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			l := acquired(t, electorOn(t, d, leader.WithSafetyMargin(explicit)), leader.WithoutAutoExtend())
			time.Sleep(lease - explicit - time.Second)
			for range 30 { // each asks for a little more than is left at the store
				rest := holderOf(t, d.store, "a").Remaining
				if err := l.Extend(t.Context(), rest+100*time.Millisecond); err != nil {
					wantIs(t, err, leader.ErrExpired) // each moves the end by less than what has passed
					return
				}
				rest = holderOf(t, d.store, "a").Remaining
				if left := rest - time.Until(l.TrustedUntil()); left < explicit {
					t.Fatalf("trusted until %v before the store's end, want at least %v", left, explicit)
				}
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
}
