package leadertest

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/goleader/leader"
)

// held reports how many leases the store has.
func (s *store) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.leases)
}

func TestPretend_LeavesNothingBehindWhenItsContextEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	stores := make([]*store, 100)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range stores {
		stores[i] = newStore([]Step{Elected()})
		pretend(ctx, "job", stores[i])
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines while pretending, %d before", n, before)
	}
	cancel()
	eventually(t, "a lease or a goroutine is left", func() bool {
		for _, s := range stores {
			if s.held() > 0 {
				return false
			}
		}
		return runtime.NumGoroutine() <= before
	})
}

// Without an end of its parent only the garbage collector can tell that nobody has the context any more, so nothing may
// refer to it.
func TestPretend_ReferredToByNobody_IsForgotten(t *testing.T) {
	ctx := Pretend(context.WithoutCancel(t.Context()), "job")
	done := ctx.Done()
	lease, _ := leader.LeaseFrom(ctx)
	forgotten := weak.Make(lease)
	runtime.GC()
	if _, ok := leader.LeaseFrom(ctx); !ok {
		t.Fatal("the lease ended before it was forgotten")
	}
	eventually(t, "something refers to the lease", func() bool {
		runtime.GC()
		return forgotten.Value() == nil
	})
	select {
	case <-done:
		t.Error("the context has ended for those who still wait for that")
	default:
	}
}

func TestEndWithLease_OfAForgottenLease_EndsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	hooks := endWithLease(cancel)
	hooks.Lost(ctx, leader.LeaseInfo{}, leader.ErrAbandoned)
	hooks.Released(ctx, leader.LeaseInfo{})
	if ctx.Err() != nil {
		t.Error("the context has ended")
	}
}

func TestPretend_WorksInABubbleThatEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, ok := leader.LeaseFrom(Pretend(context.WithoutCancel(t.Context()), "job")); !ok {
			t.Error("no lease")
		}
	})
}

// eventually waits until ok holds.
func eventually(t *testing.T, otherwise string, ok func() bool) {
	t.Helper()
	watchdog := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-watchdog:
			t.Fatal(otherwise)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
