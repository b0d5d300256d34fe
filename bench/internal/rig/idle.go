package rig

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/internal/testserver"
)

// idleNames is how many names the idle waiters wait for.
const idleNames = 10

// Idle lets n callers of one elector wait for ten names that another elector holds, and returns the CPU time that this
// process takes, the holder's renewals included, in percent of a core for each second of the time d.
func (r *Redis) Idle(t testserver.TB, n int, d time.Duration) ([]float64, error) {
	t.Helper()
	ctx := t.Context()
	holder, waiter := r.elector(t, r.dial(t)), r.elector(t, r.dial(t))
	name := func(i int) string { return fmt.Sprintf("idle-%d", i%idleNames) }
	for i := range idleNames {
		hold(t, holder, name(i))
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiters sync.WaitGroup
	results := make([]error, n)
	for i := range n {
		waiters.Go(func() {
			_, results[i] = waiter.RunIfLeader(waiting, name(i), nothing, leader.WithWaitTime(time.Hour))
		})
	}
	pause(ctx, time.Second) // so that all wait
	runtime.GC()
	used, err := cpuPercents(ctx, d)
	cancel()
	waiters.Wait()
	for _, result := range results {
		if !errors.Is(result, context.Canceled) {
			err = errors.Join(err, fmt.Errorf("a waiter did not wait: %w", result))
			break
		}
	}
	return used, errors.Join(err, ctx.Err())
}

func cpuPercents(ctx context.Context, d time.Duration) ([]float64, error) {
	var list []float64
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		cpu, err := cpuTime()
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		pause(ctx, min(time.Second, d))
		now, err := cpuTime()
		if err != nil {
			return nil, err
		}
		list = append(list, 100*float64(now-cpu)/float64(time.Since(begin)))
	}
	return list, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
