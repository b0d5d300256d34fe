package raftleader

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// command asks for a command to be decided.
func (b *Backend) command(ctx context.Context, c machine.Command) (machine.Reply, error) {
	a, err := b.ask(ctx, wire.Request{Topic: wire.Propose, Command: c})
	return a.Reply, err
}

// TryAcquire makes one attempt: one entry in the log, or none if another token holds the key.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	r, err := b.command(ctx, acquisition(machine.Acquire, req))
	if err == nil {
		err = replyError(r)
	}
	if err != nil {
		return nil, err
	}
	return &lease{b, req.Key, req.Token, r.Fence}, nil
}

// TryAcquireSlot implements [backend.SlotAcquirer] with one entry in the log, or none if all slots are taken.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, 0, err
	}
	c := acquisition(machine.AcquireSlot, req)
	c.Slots = n
	r, err := b.command(ctx, c)
	if err == nil {
		err = replyError(r)
	}
	if err != nil {
		return nil, 0, err
	}
	return &lease{b, backend.SlotKey(req.Key, r.Slot), req.Token, r.Fence}, r.Slot, nil
}

func acquisition(kind machine.Kind, req backend.Request) machine.Command {
	return machine.Command{
		Kind: kind, Key: req.Key, Token: req.Token, Owner: req.Owner, TTL: micros(req.TTL), Metadata: req.Metadata,
	}
}

// Abandon gives up an attempt, with one entry in the log.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	_, err := b.command(ctx, machine.Command{Kind: machine.Abandon, Key: req.Key, Token: req.Token})
	return err
}

// Inspect reports the holder as the raft leader knows it, by its clock.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	a, err := b.ask(ctx, wire.Request{Topic: wire.Inspect, Command: machine.Command{Key: key}})
	if err != nil {
		return backend.Holder{}, err
	}
	return holder(a.Holder), nil
}

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	r, err := b.command(ctx, machine.Command{Kind: machine.Break, Key: key, Fence: fence})
	if err != nil {
		return err
	}
	return replyError(r)
}

// lease is a granted right. It has no state of its own but its identity.
type lease struct {
	backend *Backend
	key     string
	token   string
	fence   uint64
}

func (l *lease) Fence() uint64 { return l.fence }

func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	r, err := l.backend.command(ctx, l.about(machine.Renew, ttl))
	if err != nil {
		return err
	}
	return replyError(r)
}

func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	if keep > maxTTL {
		return backend.WithKind(fmt.Errorf("keep %v is over the maximum of %v", keep, maxTTL), backend.Misconfigured)
	}
	_, err := l.backend.command(ctx, l.about(machine.Release, max(keep, 0)))
	return err
}

func (l *lease) about(kind machine.Kind, d time.Duration) machine.Command {
	return machine.Command{Kind: kind, Key: l.key, Token: l.token, Fence: l.fence, TTL: micros(d)}
}

func replyError(r machine.Reply) error {
	switch r.Code {
	case machine.Held:
		return &backend.HeldError{Holder: holder(r.Holder)}
	case machine.Lost:
		return backend.ErrLost
	case machine.Conflict:
		return backend.ErrConflict
	case machine.OK:
	}
	return nil
}

func holder(h machine.Holder) backend.Holder {
	if h.Free() {
		return backend.Holder{}
	}
	return backend.Holder{
		Owner:     h.Owner,
		Fence:     h.Fence,
		Since:     time.UnixMicro(h.Since),
		Remaining: time.Duration(h.Remaining) * time.Microsecond,
		Kept:      h.Kept,
		Seen:      strconv.FormatUint(h.Index, 10),
		Metadata:  maps.Clone(h.Metadata),
	}
}

func checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL:
		return backend.WithKind(fmt.Errorf("ttl %v is under the minimum of %v", ttl, minTTL), backend.Misconfigured)
	case ttl > maxTTL:
		return backend.WithKind(fmt.Errorf("ttl %v is over the maximum of %v", ttl, maxTTL), backend.Misconfigured)
	}
	return nil
}

// micros rounds up to whole microseconds.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
