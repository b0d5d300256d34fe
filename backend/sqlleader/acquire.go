package sqlleader

import (
	"context"

	"github.com/goleader/leader/backend"
)

// TryAcquire implements [backend.Driver]: it reads the row and writes only if the key looks free or is held by the same
// token. ctx governs the waits for a connection and for locks.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if _, err := duration(req.TTL); err != nil {
		return nil, err
	}
	for range conflicts {
		r, err := b.look(ctx, req.Key)
		if err != nil {
			return nil, err
		}
		if r.spent == req.Token {
			return nil, backend.ErrLost
		}
		left := b.left(req.Key, &r)
		if left > 0 && r.token != req.Token {
			return nil, b.lose(ctx, &r, left)
		}
		l, won, err := b.claim(ctx, &r, left, req, span{})
		if err != nil {
			return nil, err
		}
		if won {
			return l, nil
		}
	}
	return nil, &backend.HeldError{}
}

// take makes the row, if it still is as it was seen, the lease l, and gives l its fence.
func (b *Backend) take(ctx context.Context, l *lease, req backend.Request, ttl int64, seen identity) (bool, error) {
	metadata, err := encode(req.Metadata)
	if err != nil {
		return false, err
	}
	at := b.dialect.Clock()
	l.fence = max(seen.fence+1, at.Wall)
	won, err := b.exec(ctx, &b.acquire, &values{
		key: req.Key, token: req.Token, owner: req.Owner, metadata: metadata,
		ttl: ttl, fence: l.fence, at: at, seen: seen,
	})
	if won {
		b.foreign.forget(req.Key)
	}
	return won, err
}

// lose returns who holds the key. A row of another clock is noted in passing, once.
func (b *Backend) lose(ctx context.Context, key string, r *record, left int64) error {
	if r.foreign && b.foreign.note(key) {
		// The note only helps processes that come later; without it this one still knows.
		_, _ = b.exec(ctx, &b.mark, &values{key: key, at: b.dialect.Clock(), seen: r.identity()})
	}
	h, err := r.holder(left)
	if err != nil {
		return err
	}
	return &backend.HeldError{Holder: h}
}

// Abandon implements [backend.Driver]: where the token holds the key, and where nobody does, one statement spends it.
// Otherwise the row is read, to report one that is unreadable. ctx governs the waits for a connection and for locks.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	spent, err := b.exec(ctx, &b.abandon, &values{key: req.Key, token: req.Token, at: b.dialect.Clock()})
	if err != nil || spent {
		return err
	}
	_, err = b.look(ctx, req.Key)
	return err
}

// Inspect implements [backend.Driver]. It writes nothing.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	r, err := b.look(ctx, key)
	if err != nil {
		return backend.Holder{}, err
	}
	left := b.left(key, &r)
	if left <= 0 {
		return backend.Holder{}, nil
	}
	return r.holder(left)
}
