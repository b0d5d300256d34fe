package sqlleader

import (
	"context"

	"github.com/goleader/leader/backend"
)

// TryAcquire implements [backend.Driver]: it reads the row and writes only if the key looks free or is held by the same
// token. ctx governs the waits for a connection and for locks.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	ttl, err := duration(req.TTL)
	if err != nil {
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
		left := b.left(&r)
		if left > 0 && r.token != req.Token {
			return nil, b.lose(ctx, []slot{{r, left}})
		}
		l, err := b.claim(ctx, req, ttl, &slot{r, left}, span{})
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
	}
	return nil, &backend.HeldError{}
}

// slot is a row and how many µs its key stays taken.
type slot struct {
	record

	left int64
}

// claim makes s a lease of req: it extends the one that the token has, and takes what is free if s is as it was read and
// the token is in no other row of group. The lease is nil if it could not.
func (b *Backend) claim(ctx context.Context, req backend.Request, ttl int64, s *slot, group span) (*lease, error) {
	l := &lease{b: b, key: s.key, token: req.Token, fence: s.fence}
	if s.left > 0 {
		alive, err := l.extend(ctx, ttl)
		if err != nil || !alive {
			return nil, err
		}
		return l, nil
	}
	metadata, err := encode(req.Metadata)
	if err != nil {
		return nil, err
	}
	at := b.dialect.Clock()
	l.fence = max(s.fence+1, at.Wall)
	won, err := b.exec(ctx, &b.acquire, &values{
		key: s.key, token: req.Token, owner: req.Owner, metadata: metadata,
		ttl: ttl, fence: l.fence, at: at, seen: s.identity(), within: group,
	})
	if err != nil || !won {
		return nil, err
	}
	b.foreign.forget(s.key)
	return l, nil
}

// lose returns who holds the one of taken that ends first. Rows of another clock are noted in passing, once.
func (b *Backend) lose(ctx context.Context, taken []slot) error {
	first := &taken[0]
	for i := range taken {
		s := &taken[i]
		if s.left < first.left {
			first = s
		}
		if s.foreign && b.foreign.note(s.key) {
			// The note only helps processes that come later; without it this one still knows.
			_, _ = b.exec(ctx, &b.mark, &values{key: s.key, at: b.dialect.Clock(), seen: s.identity()})
		}
	}
	h, err := first.holder(first.left)
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
	left := b.left(&r)
	if left <= 0 {
		return backend.Holder{}, nil
	}
	return r.holder(left)
}
