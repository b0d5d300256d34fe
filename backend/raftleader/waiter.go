package raftleader

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// pollAgain is how soon the raft leader is asked again when it did not answer.
const pollAgain = 250 * time.Millisecond

// AwaitRelease waits until the log of this node has a change of the key's holder after the one that was seen, or until the
// raft leader says that its log has one, which is sooner: the others hear of an entry when the next one comes, or after
// 50 ms. It costs nothing but that question to the leader, one every 2 s.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	index, err := strconv.ParseUint(seen, 10, 64)
	if err != nil {
		return nil // nothing was seen: it may be free
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 2)
	b.asides.run(func() { done <- b.awaitChange(ctx, key, index) })
	b.asides.run(func() { done <- b.askForChange(ctx, key, index) })
	select {
	case err = <-done:
		return err
	case <-b.ctx.Done():
		return errClosed
	}
}

// askForChange waits until the raft leader knows that the holder of a key is not the one of an index.
func (b *Backend) askForChange(ctx context.Context, key string, index uint64) error {
	r := wire.Request{Topic: wire.Await, Command: machine.Command{Key: key}, Index: index, Within: wire.PollFor}
	for {
		began := time.Now()
		err := b.askBriefly(ctx, r)
		switch {
		case err == nil:
			return nil
		case b.ctx.Err() != nil:
			return errClosed
		case time.Since(began) > wire.PollFor/2:
			continue // the leader had nothing to say
		}
		select {
		case <-time.After(pollAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// askBriefly asks the raft leader for a change, for a while.
func (b *Backend) askBriefly(ctx context.Context, r wire.Request) error {
	ctx, cancel := context.WithTimeout(ctx, wire.PollFor+pollAgain)
	defer cancel()
	_, err := b.askOnce(ctx, r)
	return err
}

// Watch implements [backend.Watcher]. Each change costs a question to the raft leader.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		for first, last := true, uint64(0); ; first = false {
			a, err := b.ask(ctx, wire.Request{Topic: wire.Inspect, Command: machine.Command{Key: key}})
			if err != nil {
				yield(backend.Holder{}, err)
				return
			}
			if (first || a.Holder.Index != last) && !yield(holder(a.Holder), nil) {
				return
			}
			last = a.Holder.Index
			if err := b.askForChange(ctx, key, last); err != nil {
				yield(backend.Holder{}, b.classify(ctx, err))
				return
			}
		}
	}
}
