package raftleader

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// PutRecord implements [backend.Records] with one entry in the log, or none if the version is another one.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (string, error) {
	reply, err := b.command(ctx, machine.Command{
		Kind: machine.PutRecord, Key: r.Key, Version: r.Version, Value: r.Value, TTL: micros(max(r.TTL, 0)),
	})
	if err != nil {
		return "", err
	}
	return reply.Version, replyError(reply)
}

// GetRecords implements [backend.Records]. The clock is that of the cluster: it began as the wall clock of the node that
// founded it, and is behind by the times without a raft leader. Another raft leader's goes back by the time since the last
// entry in the log, which is a second at most while a lease runs.
func (b *Backend) GetRecords(ctx context.Context, prefix string) ([]backend.Record, time.Time, error) {
	a, err := b.ask(ctx, wire.Request{Topic: wire.Records, Command: machine.Command{Key: prefix}})
	if err != nil {
		return nil, time.Time{}, err
	}
	list := make([]backend.Record, len(a.Records))
	for i, r := range a.Records {
		list[i] = backend.Record{
			Key: r.Key, Version: r.Version, Value: slices.Clone(r.Value), TTL: time.Duration(r.TTL) * time.Microsecond,
		}
	}
	return list, time.UnixMicro(a.Now), nil
}

// DeleteRecord implements [backend.Records].
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	reply, err := b.command(ctx, machine.Command{Kind: machine.DeleteRecord, Key: r.Key, Version: r.Version})
	if err != nil {
		return err
	}
	return replyError(reply)
}

// List implements [backend.Lister] with what there was at one instant. Expired leases are known for an hour.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		a, err := b.ask(ctx, wire.Request{Topic: wire.List, Command: machine.Command{Key: prefix}, All: all})
		if err != nil {
			yield(backend.Entry{}, err)
			return
		}
		for _, e := range a.Entries {
			if !yield(backend.Entry{Key: e.Key, Holder: holder(e.Holder)}, nil) {
				return
			}
		}
	}
}
