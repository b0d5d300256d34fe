package sqlleader

import (
	"context"
	"time"

	"github.com/goleader/leader/backend"
)

// lease is one term of a key. A row that it cannot change is read, because it may be gone or may be unreadable.
type lease struct {
	b          *Backend
	key, token string
	fence      int64
}

func (l *lease) Fence() uint64 { return uint64(l.fence) } //nolint:gosec // fences are positive

func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	left, err := duration(ttl)
	if err != nil {
		return err
	}
	alive, err := l.extend(ctx, left)
	if err != nil || alive {
		return err
	}
	if _, err := l.b.look(ctx, l.key); err != nil {
		return err
	}
	return backend.ErrLost
}

// extend moves the end to at least ttl µs from now and reports whether the lease was alive.
func (l *lease) extend(ctx context.Context, ttl int64) (alive bool, err error) {
	n, err := l.b.exec(ctx, l.b.renew, l.values(ttl))
	return n > 0, err
}

func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	ended, err := l.b.exec(ctx, l.b.release, l.values(micros(max(keep, 0))))
	if err != nil || ended > 0 {
		return err
	}
	_, err = l.b.look(ctx, l.key)
	return err
}

func (l *lease) values(ttl int64) *values {
	return &values{key: l.key, token: l.token, fence: l.fence, ttl: ttl}
}
