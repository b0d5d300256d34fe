package local

import (
	"context"
	"time"

	"github.com/goleader/leader/backend"
)

// lease is one term of a key. Its record may have been dropped since, but then the term was over.
type lease struct {
	b      *Backend
	record *record
	token  string
	fence  uint64
}

func (l *lease) Fence() uint64 { return l.fence }

func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkTTL(ttl); err != nil {
		return err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	r := l.record
	if r.free(now) || r.token != l.token {
		return backend.ErrLost
	}
	r.extend(now, ttl)
	return nil
}

func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	r := l.record
	if r.fence != l.fence || r.token != l.token && r.spent != l.token {
		return nil
	}
	// The term is this one's, held, expired, or released before; nobody else has had the key since.
	if keep <= 0 {
		r.end(l.token, time.Time{})
		return nil
	}
	if now := time.Now(); !r.free(now) {
		r.end(l.token, now.Add(keep))
	}
	return nil
}
