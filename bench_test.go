package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// cancellable is a parent as services have it.
func cancellable(b *testing.B) context.Context {
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	return ctx
}

func BenchmarkRunIfLeader(b *testing.B) {
	ctx, e := cancellable(b), electorOn(b, local.New())
	b.ReportAllocs()
	for b.Loop() {
		if r, err := e.RunIfLeader(ctx, "a", nothing); err != nil || !r.OK() {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkWithCancelCause is what BenchmarkRunIfLeader is compared with.
func BenchmarkWithCancelCause(b *testing.B) {
	parent := cancellable(b)
	b.ReportAllocs()
	for b.Loop() {
		_, cancel := context.WithCancelCause(parent)
		cancel(leader.ErrReleased)
	}
}

func BenchmarkRunIfLeader_WhoseActionAsksForDone(b *testing.B) {
	ctx, e := cancellable(b), electorOn(b, local.New())
	action := func(ctx context.Context) error {
		_ = ctx.Done()
		return nil
	}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := e.RunIfLeader(ctx, "a", action); err != nil || !r.OK() {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkRunIfLeader_Skipped(b *testing.B) {
	store := local.New()
	occupy(b, store, "a", 24*time.Hour)
	ctx, e := cancellable(b), electorOn(b, store)
	b.ReportAllocs()
	for b.Loop() {
		if r, err := e.RunIfLeader(ctx, "a", nothing); err != nil || r.Outcome != leader.Skipped {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkAcquireAndRelease(b *testing.B) {
	ctx, e := cancellable(b), electorOn(b, local.New())
	b.ReportAllocs()
	for b.Loop() {
		l, err := e.Acquire(ctx, "a")
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// heldBy returns a lease whose context has been asked for Done.
func heldBy(b *testing.B) *leader.Lease {
	l, err := electorOn(b, local.New()).Acquire(b.Context(), "a")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Release(b.Context()) })
	_ = l.Context().Done()
	return l
}

func BenchmarkLeaseFrom(b *testing.B) {
	ctx := heldBy(b).Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := leader.LeaseFrom(ctx); !ok {
			b.Fatal("lost")
		}
	}
}

func BenchmarkLease_Err(b *testing.B) {
	l := heldBy(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLeaseContext_Err(b *testing.B) {
	ctx := heldBy(b).Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := ctx.Err(); err != nil {
			b.Fatal(err)
		}
	}
}
