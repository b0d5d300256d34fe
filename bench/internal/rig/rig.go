// Package rig sets up what is measured: the library, the raw clients that it is compared with, and its peers. All of
// them work on the same store with the same lease and an action that does nothing.
package rig

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

// lease is that of everybody. It is never renewed: nothing that is timed takes as long.
const lease = 30 * time.Second

// owner is the node id where the library and the raw client have to send the same.
const owner = "node-1"

// An Op is work to be timed. It is done by one goroutine at a time unless it says otherwise.
type Op = func(ctx context.Context) error

// options are those of every elector, and then more.
func options(more ...leader.Option) []leader.Option {
	return append([]leader.Option{
		leader.WithLeaseTime(lease),
		leader.WithNodeID(owner),
		leader.WithLogger(slog.New(slog.DiscardHandler)),
	}, more...)
}

func newElector(t testserver.TB, d backend.Driver, opts ...leader.Option) *leader.Single {
	t.Helper()
	elector, err := leader.New(d, options(opts...)...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return elector
}

func nothing(context.Context) error { return nil }

// run is a RunIfLeader that has to lead.
func run(elector leader.Runner, name string) Op {
	return func(ctx context.Context) error { return lead(ctx, elector, name) }
}

// runOnce is run with another run key each time.
func runOnce(elector leader.Runner, name string) Op {
	return func(ctx context.Context) error {
		return lead(ctx, elector, name, leader.WithRunKey(rand.Text(), lease))
	}
}

func lead(ctx context.Context, elector leader.Runner, name string, opts ...leader.RunOption) error {
	result, err := elector.RunIfLeader(ctx, name, nothing, opts...)
	if err == nil && !result.OK() {
		err = fmt.Errorf("did not lead %q: %v", name, result)
	}
	return err
}

// skip is a RunIfLeader that has to be skipped for that reason.
func skip(elector leader.Runner, name string, reason leader.SkipReason) Op {
	return func(ctx context.Context) error {
		result, err := elector.RunIfLeader(ctx, name, nothing)
		if err == nil && result.Reason != reason {
			err = fmt.Errorf("was not skipped on %q as %v: %v", name, reason, result)
		}
		return err
	}
}

// hold keeps a name from others until the clean-up.
func hold(t testserver.TB, elector leader.Elector, name string) {
	t.Helper()
	l, err := elector.Acquire(t.Context(), name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) })
}
