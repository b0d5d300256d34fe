package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// patience is the watchdog of a hand-off.
	patience = 10 * time.Second
	// settle is how long after its beginning a wait counts as having begun also at the store.
	settle = 2 * time.Millisecond
)

// relay hands a name over from one elector to another, which has a driver and a client of its own.
type relay struct {
	from, to *leader.Single
	waits    *waits
	settle   time.Duration // before the release
	jitter   time.Duration // of the time that is waited, for a store that looks in a rhythm
}

func newRelay(t testserver.TB, from, to backend.Driver, jitter time.Duration) *relay {
	t.Helper()
	w := &waits{Driver: to, begun: make(chan struct{}, 1)}
	return &relay{from: newElector(t, from), to: newElector(t, w), waits: w, settle: settle, jitter: jitter}
}

// pass returns the time from the call of Release until the other's action starts. It is a contest.Way.
func (r *relay) pass(ctx context.Context) (time.Duration, error) {
	held, err := r.from.Acquire(ctx, "hand-off")
	if err != nil {
		return 0, err
	}
	r.waits.forget()
	var started time.Time
	ran := make(chan error, 1)
	go func() {
		result, err := r.to.RunIfLeader(ctx, "hand-off", func(context.Context) error {
			started = time.Now()
			return nil
		}, leader.WithWaitTime(patience))
		if err == nil && !result.OK() {
			err = fmt.Errorf("the waiter did not lead: %v", result)
		}
		ran <- err
	}()
	select {
	case <-r.waits.begun:
	case err := <-ran:
		return 0, errors.Join(errors.New("the waiter did not wait"), err)
	}
	time.Sleep(r.settle + rand.N(r.jitter+1))
	released := time.Now()
	if err := errors.Join(held.Release(ctx), <-ran); err != nil {
		return 0, err
	}
	return started.Sub(released), nil
}

// waits is a driver that tells when a wait begins.
type waits struct {
	backend.Driver

	begun chan struct{} // has room for one
}

func (w *waits) forget() {
	select {
	case <-w.begun:
	default:
	}
}

// Unwrap implements [backend.Unwrapper].
func (w *waits) Unwrap() backend.Driver { return w.Driver }

// AwaitRelease implements [backend.Waiter].
func (w *waits) AwaitRelease(ctx context.Context, key, seen string) error {
	waiter, ok := backend.As[backend.Waiter](w.Driver)
	if !ok {
		return errors.ErrUnsupported
	}
	select {
	case w.begun <- struct{}{}:
	default:
	}
	return waiter.AwaitRelease(ctx, key, seen)
}
