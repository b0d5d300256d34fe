package hazelcastleader

import (
	"cmp"
	"context"
	"errors"

	"github.com/goleader/leader/backend"
)

const (
	// conflicts is how often a call starts again because others changed the entry under it.
	conflicts = 3
	// joins is how often it does because calls with the same token did, of which there are few.
	joins = 50
)

// errBusy says that an entry changed each time when it had been looked at.
var errBusy = backend.WithKind(errors.New("the entry is being changed by others"), backend.Unavailable)

// TryAcquire makes one attempt in two round trips: the entry and the clock at once, and the change. A losing one takes
// the first alone. The entry of a key that this backend has had again and again is not read: the change shows that nobody
// else has had it, or refutes it.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	e, at, err := b.recall(ctx, req.Key)
	for tries := (budget{}); tries.left(); tries.spend(e.Token == req.Token) {
		if err != nil {
			return nil, err
		}
		var l backend.Lease
		if l, e, err = b.take(ctx, req, e, at); l != nil {
			b.released.forget(req.Key)
			return l, nil
		}
		if err == nil {
			b.released.judge(req.Key, e)
		}
	}
	return nil, cmp.Or(err, error(&backend.HeldError{}))
}

// recall is look, but for a key that this backend seems to have had last it reads the clock alone.
func (b *Backend) recall(ctx context.Context, key string) (entry, instant, error) {
	if e, ok := b.released.recall(key); ok {
		at, err := b.now(ctx)
		return e, at, err
	}
	e, at, err := b.look(ctx, key)
	if err == nil {
		b.released.judge(key, e)
	}
	return e, at, err
}

// budget counts how often a call has started again.
type budget struct{ conflicts, joins int }

func (b *budget) left() bool { return b.conflicts < conflicts && b.joins < joins }

// spend counts a change of the entry, which was made by a call with the caller's own token if the entry has it.
func (b *budget) spend(own bool) {
	if own {
		b.joins++
	} else {
		b.conflicts++
	}
}

// take makes a lease of a key that is free, or that the token has. The lease is nil if the entry is another one meanwhile,
// which is returned.
func (b *Backend) take(
	ctx context.Context, req backend.Request, e entry, at instant,
) (l backend.Lease, now entry, err error) {
	left := e.left(at, b.options.MaxSkew)
	var next record
	switch {
	case e.Spent == req.Token:
		return nil, e, backend.ErrLost
	case left == 0:
		next = e.granted(req, at)
	case e.Token == req.Token:
		next = e.renewed(at, req.TTL, b.options.MaxSkew)
		if next.Until == e.Until && next.Clock == e.Clock {
			return b.lease(req, e), e, nil // Another call with the token has moved the end as far.
		}
	default:
		return nil, e, &backend.HeldError{Holder: e.holder(left)}
	}
	now, changed, err := b.change(ctx, req.Key, e, next)
	if !changed || err != nil {
		return nil, now, err
	}
	return b.lease(req, now), now, nil
}

func (b *Backend) lease(req backend.Request, e entry) *lease {
	return &lease{backend: b, key: req.Key, token: req.Token, fence: e.Fence, last: e}
}

// Abandon gives up an attempt, in two round trips. It changes a free entry too, and creates one where there is none, so
// that the attempt changes nothing if it arrives later.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	b.attempts.settle(req.Token)
	e, at, err := b.look(ctx, req.Key)
	for range conflicts {
		if err != nil {
			return err
		}
		left := e.left(at, b.options.MaxSkew)
		next := e.record
		switch {
		case e.Token == req.Token:
			next = e.freed()
		case left > 0 || e.Spent == req.Token:
			return nil
		case e.absent():
			next.Fence = at.fence()
		}
		next.Spent = req.Token
		var changed bool
		if e, changed, err = b.change(ctx, req.Key, e, next); changed {
			return nil
		}
	}
	return cmp.Or(err, errBusy)
}

// Inspect reports the holder, in one round trip and by the members' clock.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	e, at, err := b.look(ctx, key)
	if err != nil {
		return backend.Holder{}, err
	}
	left := e.left(at, b.options.MaxSkew)
	if left == 0 {
		return backend.Holder{}, nil
	}
	return e.holder(left), nil
}

// look reads an entry and the clock, in one round trip.
func (b *Backend) look(ctx context.Context, key string) (entry, instant, error) {
	if err := b.ready(ctx); err != nil {
		return entry{}, instant{}, err
	}
	reading := b.ask(ctx)
	e, err := b.read(ctx, key)
	if err != nil {
		return entry{}, instant{}, err
	}
	at, err := reading.result(ctx)
	return e, at, err
}

// ask begins to read the clock.
func (b *Backend) ask(ctx context.Context) *reading { return b.clock.ask(ctx, b.client) }

// now reads the clock, in one round trip.
func (b *Backend) now(ctx context.Context) (instant, error) {
	if err := b.ready(ctx); err != nil {
		return instant{}, err
	}
	return b.clock.now(ctx, b.client)
}

// read reads an entry, in one round trip.
func (b *Backend) read(ctx context.Context, key string) (entry, error) {
	if err := b.ready(ctx); err != nil {
		return entry{}, err
	}
	raw, err := b.leases.get(ctx, key)
	if err != nil || raw == "" {
		return entry{}, err
	}
	return decode(key, raw)
}

// change replaces an entry, in one round trip, and returns what the key has then. changed is false if that is another one.
func (b *Backend) change(ctx context.Context, key string, e entry, next record) (now entry, changed bool, err error) {
	if err := b.ready(ctx); err != nil {
		return entry{}, false, err
	}
	raw, err := next.encode()
	if err != nil {
		return entry{}, false, err
	}
	found, err := b.leases.change(ctx, key, e.raw, raw, 0)
	switch {
	case err != nil || found == "":
		return entry{}, false, err
	case found == raw:
		return entry{next, raw}, true, nil
	}
	now, err = decode(key, found)
	return now, false, err
}
