package raftleader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// serve answers a request as the raft leader.
func (b *Backend) serve(ctx context.Context, o *office, r wire.Request) (wire.Answer, error) {
	switch r.Topic {
	case wire.Propose:
		reply, err := b.decide(ctx, o, r.Command)
		return wire.Answer{Reply: reply}, err
	case wire.Inspect, wire.List, wire.Records:
		return b.read(ctx, o, r)
	case wire.Await:
		ctx, cancel := context.WithTimeout(ctx, r.Within)
		defer cancel()
		return wire.Answer{}, b.awaitChange(ctx, r.Command.Key, r.Index)
	}
	return wire.Answer{}, elsewhereError{fmt.Errorf("an unknown request, %d", r.Topic)}
}

// decide answers a command. One that would change nothing gets no entry in the log; what it is told is confirmed instead.
// To abandon always gets one, since what would be abandoned may still be on its way through the log.
func (b *Backend) decide(ctx context.Context, o *office, c machine.Command) (machine.Reply, error) {
	if c.Kind == machine.Acquire || c.Kind == machine.AcquireSlot {
		c.Wall = time.Now().UnixMicro()
	}
	c.At = o.now()
	reply, ok := b.machine.Foresee(c)
	if !ok || c.Kind == machine.Abandon {
		reply, err := b.propose(ctx, o, c)
		if errors.Is(err, raft.ErrLeadershipLost) && repeatable(c.Kind) {
			err = elsewhereError{err}
		}
		return reply, err
	}
	return reply, b.confirm(ctx, o)
}

// read answers from the state of this node. It looks first and then makes sure that nobody else was the raft leader
// meanwhile: so what it saw was the newest state at the instant at which it looked.
//
// The time by which it judges is read before the state, so that it is not ahead of it. What has ended by that time ends in
// the log too before anybody hears of it, or a later leader, whose clock is behind, would bring it back.
func (b *Backend) read(ctx context.Context, o *office, r wire.Request) (wire.Answer, error) {
	at := o.now()
	if b.machine.Due(at) {
		if _, err := b.propose(ctx, o, machine.Command{Kind: machine.Tick}); err != nil {
			return wire.Answer{}, elsewhereError{err} // a question may be asked again
		}
	}
	a := wire.Answer{Now: int64(b.machine.Epoch()) + at} //nolint:gosec // a wall time in µs
	switch r.Topic {
	case wire.List:
		a.Entries = b.machine.List(r.Command.Key, r.All, at)
	case wire.Records:
		a.Records = b.machine.Records(r.Command.Key, at)
	default:
		a.Holder = b.machine.Holder(r.Command.Key, at)
	}
	return a, b.confirm(ctx, o)
}

// awaitChange waits until the holder of a key is not the one of an index of the log, whose zero is nobody.
func (b *Backend) awaitChange(ctx context.Context, key string, index uint64) error {
	for {
		holder, applied, changed := b.machine.Changed(key)
		if applied >= index && holder.Index != index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
