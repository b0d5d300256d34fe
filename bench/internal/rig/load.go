package rig

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// loadLease is renewed every five seconds.
	loadLease = 15 * time.Second
	// acquirers is how many leases are acquired at a time.
	acquirers = 16
)

// Held is what it took to keep many leases alive.
type Held struct {
	Lost       int
	Renewals   int
	Bytes      float64 // of the heap, per lease, after a collection
	Goroutines []float64
}

// Hold lets one elector renew n leases for the time d.
func (r *Redis) Hold(t testserver.TB, n int, d time.Duration) (Held, error) {
	return holdMany(t, r.driver(t, r.dial(t)), n, d)
}

func holdMany(t testserver.TB, driver backend.Driver, n int, d time.Duration) (Held, error) {
	t.Helper()
	ctx := t.Context()
	var lost, renewals atomic.Int64
	elector := newElector(t, driver, leader.WithLeaseTime(loadLease), leader.WithHooks(leader.Hooks{
		Lost:    func(context.Context, leader.LeaseInfo, error) { lost.Add(1) },
		Renewed: func(context.Context, leader.LeaseInfo, time.Duration) { renewals.Add(1) },
	}))
	before, others := heap(), float64(runtime.NumGoroutine())
	leases, err := acquireAll(ctx, elector, n)
	if err != nil {
		return Held{}, err
	}
	h := Held{Goroutines: goroutines(ctx, d, others), Renewals: int(renewals.Load())}
	h.Bytes = (heap() - before) / float64(n)
	for _, l := range leases {
		if l.Err() != nil {
			h.Lost++
		}
	}
	err = releaseAll(ctx, leases)
	h.Lost = max(h.Lost, int(lost.Load()))
	return h, errors.Join(ctx.Err(), err)
}

func acquireAll(ctx context.Context, elector leader.Elector, n int) ([]*leader.Lease, error) {
	leases := make([]*leader.Lease, n)
	err := each(n, func(i int) (err error) {
		leases[i], err = elector.Acquire(ctx, fmt.Sprintf("held-%d", i))
		return err
	})
	return leases, err
}

func releaseAll(ctx context.Context, leases []*leader.Lease) error {
	return each(len(leases), func(i int) error {
		if err := leases[i].Release(ctx); !errors.Is(err, leader.ErrLeaseLost) { // which is counted
			return err
		}
		return nil
	})
}

// each calls f with every number below n, some at a time, and joins one error of each worker.
func each(n int, f func(i int) error) error {
	var (
		next    atomic.Int64
		workers sync.WaitGroup
		errs    = make([]error, acquirers)
	)
	for w := range acquirers {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = f(i)
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// heap is what is in use after a collection. Finalizers need a second one.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// goroutines counts those of the process beside others every now and then, for the time d or until ctx ends.
func goroutines(ctx context.Context, d time.Duration, others float64) []float64 {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(d)
	var list []float64
	for {
		select {
		case <-ticker.C:
			list = append(list, max(0, float64(runtime.NumGoroutine())-others))
		case <-end:
			return list
		case <-ctx.Done():
			return list
		}
	}
}
