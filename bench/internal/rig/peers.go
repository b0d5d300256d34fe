package rig

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/goleader/leader/internal/testserver"
)

// Redsync returns an acquisition and a release by redsync, on one pool.
func (r *Redis) Redsync() Op {
	rs := redsync.New(goredis.NewPool(r.client))
	return func(ctx context.Context) error {
		m := rs.NewMutex("redsync", redsync.WithExpiry(lease))
		if err := m.TryLockContext(ctx); err != nil {
			return err
		}
		return unlock(ctx, m)
	}
}

func unlock(ctx context.Context, m *redsync.Mutex) error {
	ok, err := m.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("the lock was gone")
	}
	return err
}

// Redislock returns an acquisition and a release by redislock.
func (r *Redis) Redislock() Op {
	locks := redislock.New(r.client)
	return func(ctx context.Context) error {
		l, err := locks.Obtain(ctx, "redislock", lease, nil)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

// Rueidislock returns an acquisition and a release by rueidislock, on one key.
func (r *Redis) Rueidislock(t testserver.TB) Op {
	t.Helper()
	locker := r.locker(t)
	return func(ctx context.Context) error {
		_, release, err := locker.TryWithContext(ctx, "run")
		if err != nil {
			return err
		}
		release() // returns when the key is deleted
		return nil
	}
}

// locker is set for speed: its own writes are not reported back to it. The default bound of a request, 20 ms, would
// make a noisy machine fail.
func (r *Redis) locker(t testserver.TB) rueidislock.Locker {
	t.Helper()
	option, err := rueidis.ParseURL(r.server.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   option,
		KeyMajority:    1,
		KeyValidity:    lease,
		TryNextAfter:   time.Second,
		NoLoopTracking: true,
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(locker.Close)
	return locker
}
