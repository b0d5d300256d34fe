package rig

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// Mutex returns an acquisition and a release by etcd's own mutex, on one session for all.
func (e *Etcd) Mutex(t testserver.TB) Op {
	t.Helper()
	session := e.session(t, e.client)
	return func(ctx context.Context) error {
		m := concurrency.NewMutex(session, "mutex")
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(ctx)
	}
}

// Election returns a campaign and a resignation by etcd's own election, on one session for all.
func (e *Etcd) Election(t testserver.TB) Op {
	t.Helper()
	session := e.session(t, e.client)
	return func(ctx context.Context) error {
		election := concurrency.NewElection(session, "election")
		if err := election.Campaign(ctx, owner); err != nil {
			return err
		}
		return election.Resign(ctx)
	}
}

// SessionMutex returns an acquisition and a release by etcd's own mutex, on a session for each.
func (e *Etcd) SessionMutex() Op {
	return func(ctx context.Context) error {
		session, err := concurrency.NewSession(e.client, concurrency.WithTTL(int(lease/time.Second)))
		if err != nil {
			return err
		}
		m := concurrency.NewMutex(session, "session-mutex")
		if err = m.Lock(ctx); err == nil {
			err = m.Unlock(ctx)
		}
		return errors.Join(err, session.Close())
	}
}

// mutexSettle is how long a mutex takes to wait: it watches from a past revision on, for which etcd looks only every
// 100 ms.
const mutexSettle = 150 * time.Millisecond

// MutexHandoff returns the hand-off between two mutexes, each with a client and a session of its own.
func (e *Etcd) MutexHandoff(t testserver.TB) contest.Way {
	t.Helper()
	const prefix = "mutex-hand-off"
	from := concurrency.NewMutex(e.session(t, e.dial(t)), prefix)
	to := concurrency.NewMutex(e.session(t, e.dial(t)), prefix)
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := from.Lock(ctx); err != nil {
			return 0, err
		}
		took, err := passAfter(mutexSettle, func() error { return to.Lock(ctx) }, func() error { return from.Unlock(ctx) })
		if err != nil {
			return 0, err
		}
		return took, to.Unlock(ctx)
	}
}

func (e *Etcd) session(t testserver.TB, client *clientv3.Client) *concurrency.Session {
	t.Helper()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(lease/time.Second)))
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}
