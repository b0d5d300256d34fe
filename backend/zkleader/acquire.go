package zkleader

import (
	"context"
	"maps"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

// TryAcquire makes one attempt: one write if this process has seen within the last second that the key is free, else
// a look before it. A losing attempt is a look.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := b.checkTTL(req.TTL); err != nil {
		return nil, err
	}
	path := b.path(req.Key)
	g := b.free(path)
	var err error
	for range conflicts {
		if g == nil {
			if g, err = b.look(ctx, path); err != nil {
				return nil, err
			}
		}
		l, err := b.attempt(ctx, req, g)
		if !isConflict(err) {
			return leaseOr(l, err)
		}
		g = nil
	}
	return nil, &backend.HeldError{} // Others were faster each time.
}

// leaseOr keeps a nil pointer from becoming a Lease.
func leaseOr(l *lease, err error) (backend.Lease, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// attempt acquires what was seen as g. An error that is a conflict says that it has changed.
func (b *Backend) attempt(ctx context.Context, req backend.Request, g *sight) (*lease, error) {
	if g.Spent == req.Token {
		return nil, backend.ErrLost
	}
	if g.Token == req.Token {
		return b.repeat(ctx, req, g)
	}
	if h := g.holder(&b.clock); !h.Free() {
		h.Metadata = maps.Clone(h.Metadata)
		return nil, &backend.HeldError{Holder: h}
	}
	r := record{
		Format:   format,
		Token:    req.Token,
		Session:  pending,
		Owner:    req.Owner,
		Metadata: maps.Clone(req.Metadata),
		TTL:      millis(req.TTL),
		Spent:    g.Spent,
		rest:     g.rest,
	}
	l := b.newLease(req)
	next, err := b.write(ctx, g, r, append(g.removal(), b.term(l.child))...)
	if err != nil {
		return nil, err
	}
	if g.exists() && next.stat.Czxid != g.stat.Czxid {
		// The node was deleted, made anew and written as often as the old one, since we looked: it may be held.
		if err := b.withdraw(ctx, next); err != nil {
			return nil, err
		}
		return nil, &backend.HeldError{}
	}
	l.take(next)
	return l, nil
}

// pending stands for the session that will write the record.
const pending = -1

// withdraw takes back a term that nobody was told of, and keeps the key for the longest lease, because the record of
// somebody who trusts one may have been overwritten.
func (b *Backend) withdraw(ctx context.Context, g *sight) error {
	r := g.freed(g.Token)
	r.Keep, r.Fence, r.Owner = millis(b.options.SessionTimeout), g.fence(), g.Owner
	_, err := b.write(ctx, g, r, ended(g.child()))
	return err
}

// repeat is an attempt with the token that holds the key. It is a write too, since a server that is cut off from the
// others still answers what it knows. A term whose node belongs to another session gets a new node. While the node
// exists nobody but those who have the token writes the record, so repeats at the same time need not compare
// versions.
func (b *Backend) repeat(ctx context.Context, req backend.Request, g *sight) (*lease, error) {
	l := b.newLease(req)
	r := g.settledRecord()
	var ops []any
	child := g.child()
	s, err := b.session(ctx)
	switch {
	case err != nil:
		return nil, classify(ctx, g.path, err)
	case g.alive && g.Session == s.conn.SessionID():
		ops = []any{&zk.CheckVersionRequest{Path: child, Version: -1}}
	case g.alive:
		r.Session, r.Node = pending, 0
		ops = []any{ended(child), b.term(child)}
	default:
		r.Session, r.Node = pending, 0
		ops = []any{b.term(child)}
	}
	if g.alive {
		g = g.anyVersion()
	}
	next, err := b.write(ctx, g, r, ops...)
	if err != nil {
		return nil, err
	}
	l.take(next)
	return l, nil
}

// anyVersion makes a write not compare the version.
func (g *sight) anyVersion() *sight {
	other := *g
	other.stat.Version = -1
	return &other
}

// settledRecord is the record with what only the answer to its first write tells.
func (g *sight) settledRecord() record {
	r := g.record
	r.Fence, r.Since, r.Node = g.fence(), g.acquired(), g.node()
	return r
}

// Abandon gives up an attempt. It writes that the token is spent unless somebody else holds the key, so that nothing
// that was sent before can be applied later.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	path := b.path(req.Key)
	var err error
	for range conflicts {
		var g *sight
		if g, err = b.lookAfterAll(ctx, path); err != nil {
			return err
		}
		switch {
		case g.Token == req.Token:
			_, err = b.write(ctx, g, g.freed(req.Token), g.removal()...)
		case g.Spent == req.Token || g.left(&b.clock) > 0:
			return nil
		default:
			_, err = b.write(ctx, g, g.freed(req.Token), g.removal()...)
		}
		if !isConflict(err) {
			return err
		}
	}
	return err
}

// lookAfterAll is a look that waits for all that was written before.
func (b *Backend) lookAfterAll(ctx context.Context, path string) (*sight, error) {
	err := b.do(ctx, path, func(s *session) error {
		_, err := s.conn.Sync(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b.look(ctx, path)
}

// Inspect reports the holder, in one round trip.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	g, err := b.look(ctx, b.path(key))
	if err != nil {
		return backend.Holder{}, err
	}
	h := g.holder(&b.clock)
	h.Metadata = maps.Clone(h.Metadata)
	return h, nil
}

// Break ends a lease, or what is kept of it.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	path := b.path(key)
	var err error
	for range conflicts {
		var g *sight
		if g, err = b.look(ctx, path); err != nil {
			return err
		}
		if g.left(&b.clock) == 0 || g.fence() != fence {
			return backend.ErrConflict
		}
		r := g.freed(g.Token)
		if g.Token == "" {
			r.Spent = g.Spent
		}
		if _, err = b.write(ctx, g, r, g.removal()...); !isConflict(err) {
			return err
		}
	}
	return err
}
