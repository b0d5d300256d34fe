package raftleader_test

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
)

// reborn is a node with its leases over restarts. The suite keeps its drivers when it restarts their store, but here the
// store is in the drivers.
type reborn struct {
	node int
	now  atomic.Pointer[raftleader.Backend]
}

var (
	_ backend.Driver       = (*reborn)(nil)
	_ backend.Limited      = (*reborn)(nil)
	_ backend.Checker      = (*reborn)(nil)
	_ backend.Advisor      = (*reborn)(nil)
	_ backend.Waiter       = (*reborn)(nil)
	_ backend.Watcher      = (*reborn)(nil)
	_ backend.SlotAcquirer = (*reborn)(nil)
	_ backend.Records      = (*reborn)(nil)
	_ backend.Lister       = (*reborn)(nil)
	_ backend.Breaker      = (*reborn)(nil)
)

func (r *reborn) set(b *raftleader.Backend) { r.now.Store(b) }

func (r *reborn) bound(l backend.Lease, err error) (backend.Lease, error) {
	if err != nil {
		return nil, err
	}
	return rebound{l, r}, nil
}

func (r *reborn) Name() string           { return r.now.Load().Name() }
func (r *reborn) Limits() backend.Limits { return r.now.Load().Limits() }
func (r *reborn) Check() error           { return r.now.Load().Check() }

func (r *reborn) Advise(ctx context.Context) ([]string, error) { return r.now.Load().Advise(ctx) }

func (r *reborn) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	return r.bound(r.now.Load().TryAcquire(ctx, req))
}

func (r *reborn) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	l, slot, err := r.now.Load().TryAcquireSlot(ctx, req, n)
	l, err = r.bound(l, err)
	return l, slot, err
}

func (r *reborn) Abandon(ctx context.Context, req backend.Request) error {
	return r.now.Load().Abandon(ctx, req)
}

func (r *reborn) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return r.now.Load().Inspect(ctx, key)
}

func (r *reborn) AwaitRelease(ctx context.Context, key, seen string) error {
	return r.now.Load().AwaitRelease(ctx, key, seen)
}

func (r *reborn) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return r.now.Load().Watch(ctx, key)
}

func (r *reborn) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return r.now.Load().List(ctx, prefix, all)
}

func (r *reborn) Break(ctx context.Context, key string, fence uint64) error {
	return r.now.Load().Break(ctx, key, fence)
}

func (r *reborn) PutRecord(ctx context.Context, rec backend.Record) (string, error) {
	return r.now.Load().PutRecord(ctx, rec)
}

func (r *reborn) GetRecords(ctx context.Context, prefix string) ([]backend.Record, time.Time, error) {
	return r.now.Load().GetRecords(ctx, prefix)
}

func (r *reborn) DeleteRecord(ctx context.Context, rec backend.Record) error {
	return r.now.Load().DeleteRecord(ctx, rec)
}

// rebound is a lease of the node as it is now.
type rebound struct {
	backend.Lease

	of *reborn
}

func (l rebound) Renew(ctx context.Context, ttl time.Duration) error {
	return l.of.now.Load().Bound(l.Lease).Renew(ctx, ttl)
}

func (l rebound) Release(ctx context.Context, keep time.Duration) error {
	return l.of.now.Load().Bound(l.Lease).Release(ctx, keep)
}
