package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/internal/testserver"
)

// Contention is callers who all want one name, and wait for it.
type Contention []leader.Runner

// ContendTogether is n callers of one elector, which queue within the process.
func (r *Redis) ContendTogether(t testserver.TB, n int) Contention {
	t.Helper()
	elector := r.elector(t, r.dial(t))
	c := make(Contention, n)
	for i := range c {
		c[i] = elector
	}
	return c
}

// ContendApart is n electors with a driver and a client each, as in n processes.
func (r *Redis) ContendApart(t testserver.TB, n int) Contention {
	t.Helper()
	c := make(Contention, n)
	for i := range c {
		c[i] = r.elector(t, r.dial(t))
	}
	return c
}

// RunsPerSecond lets all of them run as often as they can for the time d.
func (c Contention) RunsPerSecond(ctx context.Context, d time.Duration) (float64, error) {
	var callers sync.WaitGroup
	runs, errs := make([]int, len(c)), make([]error, len(c))
	begin := time.Now()
	for i, elector := range c {
		callers.Go(func() {
			for time.Since(begin) < d && errs[i] == nil {
				result, err := elector.RunIfLeader(ctx, "contended", nothing, leader.WithWaitTime(patience))
				if err == nil && !result.OK() {
					err = fmt.Errorf("did not lead within %v: %v", patience, result)
				}
				runs[i], errs[i] = runs[i]+1, err
			}
		})
	}
	callers.Wait()
	took := time.Since(begin)
	var sum int
	for _, n := range runs {
		sum += n
	}
	return float64(sum) / took.Seconds(), errors.Join(errs...)
}
