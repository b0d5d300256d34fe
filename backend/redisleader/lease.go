package redisleader

import (
	"context"
	"time"

	"github.com/goleader/leader/backend"
)

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
	reply, short, err := l.backend.runReplicated(ctx, renewScript, []string{l.key}, l.token, micros(ttl))
	switch {
	case err != nil:
		return err
	case reply == int64(0):
		return backend.ErrLost
	}
	return short
}

func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	if err := checkKeep(keep); err != nil {
		return err
	}
	_, err := l.backend.run(ctx, releaseScript, []string{l.key}, l.token, micros(max(keep, 0)), l.backend.publish)
	return err
}
