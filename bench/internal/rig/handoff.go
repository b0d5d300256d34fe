package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// Handoff returns the hand-off between two electors, each with a client of its own.
func (r *Redis) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, r.driver(t, r.dial(t)), r.driver(t, r.dial(t)), 0).pass
}

// RawHandoff returns the same by raw clients and the driver's own scripts: one releases, and with it publishes; another
// receives the message and acquires. The time ends with the answer.
func (r *Redis) RawHandoff(t testserver.TB) contest.Way {
	t.Helper()
	from, to := r.dial(t), r.dial(t)
	s := r.record(t, "raw hand-off")
	messages := r.dial(t).Subscribe(t.Context(), s.acquire.keys[0]) // the channel is named as the key
	t.Cleanup(func() { _ = messages.Close() })
	if _, err := messages.Receive(t.Context()); err != nil { // the confirmation
		t.Fatalf("%v", err)
	}
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		token, next := rand.Text(), rand.Text()
		if err := s.acquire.send(ctx, from, token); err != nil {
			return 0, err
		}
		took, err := pass(func() error {
			if _, err := messages.ReceiveMessage(ctx); err != nil {
				return err
			}
			return s.acquire.send(ctx, to, next)
		}, func() error { return s.release.send(ctx, from, token) })
		if err != nil {
			return 0, err
		}
		err = s.release.send(ctx, to, next)
		_, failed := messages.ReceiveMessage(ctx) // of that release
		return took, errors.Join(err, failed)
	}
}

// RueidislockHandoff returns the hand-off between two lockers. On a busy machine a wake-up is lost now and then; that
// hand-off takes as long as the waiter waits.
func (r *Redis) RueidislockHandoff(t testserver.TB) contest.Way {
	t.Helper()
	from, to := r.locker(t), r.locker(t)
	return func(ctx context.Context) (time.Duration, error) {
		_, release, err := from.TryWithContext(ctx, "hand-off")
		if err != nil {
			return 0, err
		}
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		end := func() {}
		took, err := pass(func() error {
			_, f, err := to.WithContext(waiting, "hand-off")
			if err == nil {
				end = f
			}
			return err
		}, func() error {
			release()
			return nil
		})
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = nil
		}
		end()
		return took, err
	}
}

// RedsyncHandoff returns the hand-off between two mutexes, with redsync's own pauses between attempts.
func (r *Redis) RedsyncHandoff(t testserver.TB) contest.Way {
	t.Helper()
	from, to := redsync.New(goredis.NewPool(r.dial(t))), redsync.New(goredis.NewPool(r.dial(t)))
	return func(ctx context.Context) (time.Duration, error) {
		first := from.NewMutex("redsync-hand-off", redsync.WithExpiry(lease))
		if err := first.TryLockContext(ctx); err != nil {
			return 0, err
		}
		next := to.NewMutex("redsync-hand-off", redsync.WithExpiry(lease))
		took, err := pass(func() error { return next.LockContext(ctx) }, func() error { return unlock(ctx, first) })
		if err != nil {
			return 0, err
		}
		return took, unlock(ctx, next)
	}
}

// pass starts wait, lets it settle, calls release, and returns the time from then until wait has returned.
func pass(wait, release func() error) (time.Duration, error) { return passAfter(settle, wait, release) }

// passAfter is pass for a wait that takes another time to settle.
func passAfter(settle time.Duration, wait, release func() error) (time.Duration, error) {
	var ended time.Time
	done := make(chan error, 1)
	go func() {
		err := wait()
		ended = time.Now()
		done <- err
	}()
	time.Sleep(settle)
	released := time.Now()
	err := errors.Join(release(), <-done)
	return ended.Sub(released), err
}
