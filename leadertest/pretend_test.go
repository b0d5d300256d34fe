package leadertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/leadertest"
)

type valueKey struct{}

var errStop = errors.New("stop")

func TestPretend_CarriesATrustedLease(t *testing.T) {
	ctx := leadertest.Pretend(context.WithValue(t.Context(), valueKey{}, "v"), "job")
	l, ok := leader.LeaseFrom(ctx)
	if !ok {
		t.Fatal("no trusted lease")
	}
	if i := l.Info(); i.Name != "job" || i.Fence != 1 || i.Node != "leadertest" {
		t.Errorf("lease %+v", i)
	}
	if err := l.Extend(ctx, time.Hour); err != nil {
		t.Errorf("extend: %v", err)
	}
	if ctx.Value(valueKey{}) != "v" {
		t.Error("the values of the parent are not there")
	}
	if child, ok := leader.LeaseFrom(context.WithoutCancel(ctx)); !ok || child != l {
		t.Error("a child does not carry the lease")
	}
}

func TestPretend_StaysTrustedForTheLifeOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := leadertest.Pretend(t.Context(), "job")
		time.Sleep(24 * time.Hour)
		if _, ok := leader.LeaseFrom(ctx); !ok || ctx.Err() != nil {
			t.Error("a day later the lease is over")
		}
	})
}

func TestPretend_IsOverWhenItsContextEnds(t *testing.T) {
	parent, cancel := context.WithCancelCause(t.Context())
	ctx := leadertest.Pretend(parent, "job")
	l, _ := leader.LeaseFrom(ctx)
	cancel(errStop)
	if _, ok := leader.LeaseFrom(ctx); ok {
		t.Error("LeaseFrom still trusts the lease")
	}
	if err := l.Err(); !errors.Is(err, leader.ErrLeaseLost) || !errors.Is(err, leader.ErrReleased) {
		t.Errorf("the lease says %v, want ErrReleased", err)
	}
	if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), errStop) {
		t.Errorf("the context says %v because of %v, want the parent's cause", ctx.Err(), context.Cause(ctx))
	}
}

func TestPretend_OutOfSight_IsOverWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l, _ := leader.LeaseFrom(leadertest.Pretend(parent, "job"))
		<-parent.Done()
		synctest.Wait()
		if err := l.Err(); !errors.Is(err, leader.ErrReleased) {
			t.Errorf("the lease says %v, want ErrReleased", err)
		}
	})
}

func TestPretend_OfAnEndedContext_IsOver(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	cancel()
	ctx := leadertest.Pretend(parent, "job")
	if l, ok := leader.LeaseFrom(ctx); ok || l == nil || l.Err() == nil {
		t.Error("the lease is trusted, or there is none")
	}
}

func TestPretend_Released_EndsTheContextAndNotItsParent(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := leadertest.Pretend(parent, "job")
	child, cancelChild := context.WithCancel(ctx)
	defer cancelChild()
	l, _ := leader.LeaseFrom(ctx)
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []context.Context{ctx, child} {
		if cause := context.Cause(c); !errors.Is(c.Err(), context.Canceled) || !errors.Is(cause, leader.ErrReleased) {
			t.Errorf("the context says %v because of %v, want ErrReleased", c.Err(), cause)
		}
	}
	if parent.Err() != nil {
		t.Error("the parent has ended too")
	}
	if err := l.Release(ctx); err != nil {
		t.Errorf("released again: %v", err)
	}
}

func TestPretend_Nests(t *testing.T) {
	outer := leadertest.Pretend(t.Context(), "outer")
	inner := leadertest.Pretend(outer, "inner")
	if l, ok := leader.LeaseFrom(inner); !ok || l.Info().Name != "inner" {
		t.Error("the inner context does not carry the inner lease")
	}
	if l, ok := leader.LeaseFrom(outer); !ok || l.Info().Name != "outer" {
		t.Error("the outer context does not carry the outer lease")
	}
	o, _ := leader.LeaseFrom(outer)
	if err := o.Release(outer); err != nil {
		t.Fatal(err)
	}
	if _, ok := leader.LeaseFrom(inner); ok {
		t.Error("the inner lease outlives its context")
	}
}

func TestPretend_WithAnInvalidName_IsOver(t *testing.T) {
	ctx := leadertest.Pretend(t.Context(), "")
	if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrInvalidName) {
		t.Errorf("cause %v, want ErrInvalidName", cause)
	}
	if _, ok := leader.LeaseFrom(ctx); ok {
		t.Error("it carries a lease")
	}
}
