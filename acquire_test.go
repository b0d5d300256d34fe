package leader_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// childKey is a key of a derived context.
type childKey struct{}

func TestElector_Acquire_HandsOutALeaseThatIsRenewedUntilItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l, err := electorOn(t, d, leader.WithNodeID("me")).Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if i := l.Info(); i.Name != "a" || i.Key != "a" || i.Node != "me" || i.Fence == 0 {
			t.Errorf("info %+v", i)
		}
		time.Sleep(time.Hour)
		if err := l.Err(); err != nil || l.Context().Err() != nil {
			t.Errorf("lost: %v", err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wantFree(t, d.store, "a")
		wantIs(t, l.Err(), leader.ErrLeaseLost, leader.ErrReleased)
		wantIs(t, context.Cause(l.Context()), leader.ErrReleased)
	})
}

func TestElector_Acquire_NotElectedNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", time.Hour)
		e := electorOn(t, d)
		for _, wait := range []time.Duration{0, time.Minute} {
			l, err := e.Acquire(t.Context(), "a", leader.WithWaitTime(wait))
			wantIs(t, err, leader.ErrNotElected)
			wantNames(t, err, `"a"`, "somebody else")
			if l != nil {
				t.Error("a lease beside an error")
			}
		}
	})
}

func TestElector_Acquire_ItsContextGovernsTheAcquisitionAlone(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), 100*time.Millisecond)
		defer cancel()
		l, err := electorOn(t, d).Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if l.Err() != nil || l.Context().Err() != nil {
			t.Errorf("ended with the context of Acquire: %v", l.Err())
		}
		if l.Context().Value(key{}) != "value" {
			t.Error("the values of Acquire's context are missing")
		}
		if _, ok := l.Context().Deadline(); ok {
			t.Error("the deadline of Acquire's context is shown")
		}
		if got, ok := leader.LeaseFrom(l.Context()); !ok || got != l {
			t.Error("the context does not carry its lease")
		}
		if err := l.Release(ctx); err != nil { // with a context that is done
			t.Error(err)
		}
		wantFree(t, d.store, "a")
	})
}

func TestLease_Release_AgainIsNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d))
		for range 3 {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := d.count(releases); n != 1 {
			t.Errorf("%d releases, want 1", n)
		}
	})
}

func TestLease_Release_AfterALossIsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquired(t, electorOn(t, newDriver()), leader.WithoutAutoExtend())
		time.Sleep(lease)
		for range 2 {
			wantIs(t, l.Release(t.Context()), leader.ErrLeaseLost, leader.ErrExpired)
		}
	})
}

func TestLease_Release_ReportsAStoreThatCannotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d))
		d.onVerb(releases, fails(errDown))
		err := l.Release(t.Context())
		wantIs(t, err, leader.ErrUnavailable, errDown)
		if failure, ok := errors.AsType[*leader.BackendError](err); !ok || failure.Op != "release" {
			t.Errorf("got %v, want a BackendError of release", err)
		}
	})
}

func TestLease_TrustedUntil_MovesWithTheRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquired(t, electorOn(t, newDriver()))
		wantTrustedFor(t, l, deadline)
		for range 100 {
			time.Sleep(7 * time.Second)
			if left := time.Until(l.TrustedUntil()); left < deadline-lease*11/30 || left > deadline {
				t.Errorf("trusted for %v, want what a renewal every third leaves", left)
			}
		}
	})
}

func TestLease_IsReleasedWithAWarningWhenItIsForgotten(t *testing.T) {
	store := local.New()
	w := newWarnings()
	e := loggingElector(t, store, w)
	forget := func() {
		l, err := e.Acquire(t.Context(), "a", leader.WithLeaseTime(time.Second))
		if err != nil {
			t.Error(err)
			return
		}
		_ = context.WithValue(l.Context(), childKey{}, 1)
	}
	forget()
	eventually(t, func() bool {
		runtime.GC()
		return holderOf(t, store, "a").Free() && strings.Contains(w.String(), "lease lost")
	})
}

func TestLease_IsNotForgottenWhileAContextOfItIsInUse(t *testing.T) {
	store := local.New()
	e := electorOn(t, store)
	derive := func() (context.Context, context.CancelFunc) {
		l, err := e.Acquire(t.Context(), "a", leader.WithLeaseTime(300*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		return context.WithCancel(context.WithValue(l.Context(), childKey{}, 1))
	}
	ctx, cancel := derive()
	defer cancel()
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(20 * time.Millisecond) {
		runtime.GC()
	}
	if err := ctx.Err(); err != nil || holderOf(t, store, "a").Free() {
		t.Errorf("released although a context of it is in use: %v", context.Cause(ctx))
	}
	l, _ := leader.LeaseFrom(ctx)
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestLease_IsNotForgottenWhileSomebodyWantsToBeToldOfItsEnd(t *testing.T) {
	store := local.New()
	e := electorOn(t, store)
	told := make(chan struct{})
	began := time.Now()
	func() {
		l, err := e.Acquire(t.Context(), "a", leader.WithLeaseTime(300*time.Millisecond), leader.WithMaxHold(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(l.Context(), func() { close(told) })
	}()
	for over := false; !over; {
		select {
		case <-told:
			over = true
		case <-time.After(20 * time.Millisecond):
			runtime.GC()
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("not told within ten seconds")
		}
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("ended after %v, want at the age of a second", took)
	}
}

// eventually waits in real time, with a watchdog.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("not so within ten seconds")
		}
	}
}
