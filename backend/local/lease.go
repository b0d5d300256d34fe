package local

import (
	"context"
	"time"

	"github.com/goleader/leader/backend"
)

// lease is one term of a key.
type lease struct {
	b          *Backend
	key, token string
	fence      uint64
}

func (l *lease) Fence() uint64 { return l.fence }

func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	r := l.b.records[l.key]
	if r == nil || r.free(now) || r.token != l.token {
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
	now := time.Now()
	r := l.b.records[l.key]
	if r == nil {
		return nil
	}
	held := !r.free(now) && r.token == l.token
	repeated := r.token == "" && r.spent == l.token && r.fence == l.fence
	if held || repeated && !r.free(now) {
		r.end(l.token, now.Add(max(keep, 0)))
	}
	return nil
}
