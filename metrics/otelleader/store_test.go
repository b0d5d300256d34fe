package otelleader_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

var (
	errDown   = backend.WithKind(errors.New("connection refused"), backend.Unavailable)
	errAction = errors.New("the action failed")
)

// store is a local store that fails as a test says.
type store struct {
	backend.Driver

	acquire, renew, release error
}

func newStore() *store { return &store{Driver: local.New()} }

// Unwrap shows what else the local store can.
func (s *store) Unwrap() backend.Driver { return s.Driver }

func (s *store) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if s.acquire != nil {
		return nil, s.acquire
	}
	l, err := s.Driver.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return failing{l, s}, nil
}

type failing struct {
	backend.Lease

	s *store
}

func (f failing) Renew(ctx context.Context, ttl time.Duration) error {
	if f.s.renew != nil {
		return f.s.renew
	}
	return f.Lease.Renew(ctx, ttl)
}

func (f failing) Release(ctx context.Context, keep time.Duration) error {
	if f.s.release != nil {
		return f.s.release
	}
	return f.Lease.Release(ctx, keep)
}

func elector(t testing.TB, d backend.Driver, hooks leader.Hooks, opts ...leader.Option) *leader.Single {
	t.Helper()
	all := []leader.Option{
		leader.WithHooks(hooks), leader.WithLogger(slog.New(slog.DiscardHandler)), leader.WithLeaseTime(20 * time.Second),
		leader.WithNodeID("node"),
	}
	e, err := leader.New(d, append(all, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func nothing(context.Context) error { return nil }

func works(d time.Duration) leader.Action {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}
