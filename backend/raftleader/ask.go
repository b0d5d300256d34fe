package raftleader

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

const (
	// askEvery is how soon a call looks again for a raft leader that it hears nothing of.
	askEvery = 25 * time.Millisecond
	// elections is how many election timeouts a call waits for a raft leader, but not less than the time after it. One
	// election takes two, seldom more.
	elections     = 3
	leastPatience = time.Second
)

// ready says why no call can be made.
func (b *Backend) ready(ctx context.Context) error {
	if err := b.Check(); err != nil {
		return err
	}
	if b.left.Load() {
		return backend.WithKind(errLeft, backend.Misconfigured)
	}
	return ctx.Err()
}

// ask asks the raft leader, which may be this node. While there is none, or it is just changing, it looks again for some
// election timeouts: what was asked has no effect until then, so that it is asked once.
func (b *Backend) ask(ctx context.Context, r wire.Request) (wire.Answer, error) {
	if err := b.ready(ctx); err != nil {
		return wire.Answer{}, err
	}
	for began := time.Now(); ; {
		news := b.changes.listen()
		a, err := b.askOnce(ctx, r)
		if err == nil {
			return a, nil
		}
		if !isElsewhere(err) {
			return wire.Answer{}, b.classify(ctx, err)
		}
		select {
		case <-news:
		case <-time.After(askEvery):
		case <-ctx.Done():
		}
		if ctx.Err() != nil || time.Since(began) > b.patience() {
			return wire.Answer{}, b.classify(ctx, err)
		}
		if err := b.ready(ctx); err != nil {
			return wire.Answer{}, err
		}
	}
}

// patience is for how long a call looks for a raft leader.
func (b *Backend) patience() time.Duration {
	return max(elections*b.config.ElectionTimeout, leastPatience)
}

// askOnce asks whoever is the raft leader now.
func (b *Backend) askOnce(ctx context.Context, r wire.Request) (wire.Answer, error) {
	if o := b.office.Load(); o != nil {
		return b.serve(ctx, o, r)
	}
	leader := b.reign.Load()
	if leader == nil || leader.id == b.stores.id || !b.member() {
		// Whoever has no part of the log yet could not tell, should all others forget theirs, that there was a cluster.
		return wire.Answer{}, elsewhereError{b.noLeader()}
	}
	a, err := b.port.Ask(ctx, leader.id, leader.at, r, leader.over)
	switch {
	case errors.Is(err, wire.ErrUnsent), err != nil && r.Topic != wire.Propose,
		errors.Is(err, wire.ErrGone) && repeatable(r.Command.Kind):
		return wire.Answer{}, elsewhereError{err}
	case err != nil:
		return wire.Answer{}, err
	}
	return a, faultError(a.Fault, a.Text)
}

// repeatable reports whether a command may be repeated that a raft leader did not answer because it lost its office. What
// the next one does not find in its log then never gets there, and the same command twice is as good as once, except for
// those that compare a version or a fence, which the first one has changed.
func repeatable(k machine.Kind) bool {
	return k != machine.PutRecord && k != machine.DeleteRecord && k != machine.Break
}

// classify attaches a kind to an error.
func (b *Backend) classify(ctx context.Context, err error) error {
	if backend.KindOf(err) == backend.Misconfigured {
		return err
	}
	return unavailable(ctx, err)
}

// Serve implements [wire.Handler].
func (b handler) Serve(ctx context.Context, r wire.Request) wire.Answer {
	o := b.awaitOffice(ctx)
	if o == nil || b.Check() != nil {
		f, text := fault(elsewhereError{b.noLeader()})
		return wire.Answer{Fault: f, Text: text}
	}
	a, err := b.serve(ctx, o, r)
	a.Fault, a.Text = fault(err)
	return a
}

// awaitOffice returns the office of this node, nil if it has none. A raft leader that is about to take office is waited
// for.
func (b *Backend) awaitOffice(ctx context.Context) *office {
	for {
		news := b.changes.listen()
		o, r := b.office.Load(), b.reign.Load()
		if o != nil || r == nil || r.id != b.stores.id {
			return o
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}
