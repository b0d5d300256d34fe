package sqlleader

import (
	"context"

	"github.com/goleader/leader/backend"
)

// TryAcquire implements [backend.Driver]: it writes only if the key looks free or is held by the same token, in one
// statement that also reads where the dialect has one, else after reading the row. ctx governs the waits for a connection
// and for locks.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	ttl, err := duration(req.TTL)
	if err != nil {
		return nil, err
	}
	try := b.readAndClaim
	if b.canTake(ctx) {
		try = b.takeIfFree
	}
	for range conflicts {
		l, err := try(ctx, req, ttl)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
	}
	return nil, &backend.HeldError{}
}

// canTake reports whether the server knows the statement Take. It asks once, and again after an error.
func (b *Backend) canTake(ctx context.Context) bool {
	if b.take.Text == "" || b.invalid != nil {
		return false
	}
	if b.dialect.TakeIf == "" {
		return true
	}
	if known := b.takes.Load(); known != nil {
		return *known
	}
	var known bool
	ask := &Command{Text: b.dialect.TakeIf, Once: true}
	if err := b.handle.Query(ctx, ask, nil, func(row Row) error { return row.Scan(&known) }); err != nil {
		return false
	}
	b.takes.Store(&known)
	return known
}

// takeIfFree makes one attempt with one statement. The lease is nil if another was faster.
func (b *Backend) takeIfFree(ctx context.Context, req backend.Request, ttl int64) (*lease, error) {
	metadata, err := encode(req.Metadata)
	if err != nil {
		return nil, err
	}
	v := &values{key: req.Key, token: req.Token, owner: req.Owner, metadata: metadata, ttl: ttl}
	var r record
	var found, taken bool
	err = b.run(ctx, b.take.tries, func() error {
		return b.handle.Query(ctx, &b.take.Command, v.list(b.take.args), func(row Row) error {
			found = true
			return row.Scan(r.columns(&taken)...)
		})
	})
	if err != nil || !found {
		return nil, b.unlessConflict(err)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	switch {
	case taken:
		return &lease{b: b, key: req.Key, token: req.Token, fence: r.fence}, nil
	case r.spent == req.Token:
		return nil, backend.ErrLost
	case r.left > 0 && r.token != req.Token:
		return nil, b.lose(ctx, []slot{{r, r.left}})
	}
	return nil, nil //nolint:nilnil // the row was free when the statement began, and is another's now
}

// readAndClaim makes one attempt that reads the row first. The lease is nil if another was faster.
func (b *Backend) readAndClaim(ctx context.Context, req backend.Request, ttl int64) (*lease, error) {
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
	return b.claim(ctx, req, ttl, &slot{r, left}, span{})
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
	l.fence = max(s.fence+1, b.now().Wall)
	acquire := b.acquire
	if s.fence == 0 && b.create.Text != "" {
		acquire = b.create
	}
	won, err := b.exec(ctx, acquire, &values{
		key: s.key, token: req.Token, owner: req.Owner, metadata: metadata,
		ttl: ttl, fence: l.fence, seen: s.identity(), within: group,
	})
	if err != nil || won == 0 {
		return nil, b.unlessConflict(err)
	}
	if acquire.result != ChangedRows {
		l.fence = won
	}
	b.foreign.forget(s.key)
	return l, nil
}

// unlessConflict is err, and nil if it says that others were faster: the attempt is made again then.
func (b *Backend) unlessConflict(err error) error {
	if err != nil && b.conflict(err) {
		return nil
	}
	return err
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
			_, _ = b.exec(ctx, b.mark, &values{key: s.key, seen: s.identity()})
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
	spent, err := b.exec(ctx, b.abandon, &values{key: req.Key, token: req.Token})
	if err != nil || spent > 0 {
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
