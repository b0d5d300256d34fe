package leadertest

import (
	"context"
	"maps"
	"time"

	"github.com/goleader/leader/backend"
)

// lease is what a step granted. It is over when the store no longer has it.
type lease struct {
	s          *store
	key, token string
	holder     backend.Holder
	until      time.Time   // guarded by the store's mu
	loss       *time.Timer // takes it away; nil if nothing does
}

func newLease(s *store, req backend.Request, fence uint64) *lease {
	now := time.Now()
	return &lease{
		s: s, key: req.Key, token: req.Token, until: now.Add(req.TTL),
		holder: backend.Holder{Owner: req.Owner, Fence: fence, Since: now, Metadata: maps.Clone(req.Metadata)},
	}
}

func (l *lease) Fence() uint64 { return l.holder.Fence }

func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	now := time.Now()
	if l.s.leases[l.key] != l || !now.Before(l.until) {
		return backend.ErrLost
	}
	if end := now.Add(ttl); end.After(l.until) {
		l.until = end
	}
	return nil
}

// Release keeps nothing: what comes next is up to the script.
func (l *lease) Release(ctx context.Context, _ time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.end()
	return nil
}

// end makes the store forget the lease. The store's mu is held.
func (l *lease) end() {
	if l.loss != nil {
		l.loss.Stop()
	}
	if l.s.leases[l.key] == l {
		delete(l.s.leases, l.key)
	}
}

// losing is a lease that ends by itself.
type losing struct {
	*lease

	lost chan struct{} // closed when it does
}

var _ backend.LossNotifier = losing{}

// newLosing makes the store take l away. The store's mu is held.
func newLosing(l *lease, after time.Duration) losing {
	lost := make(chan struct{})
	l.loss = time.AfterFunc(max(0, after), func() {
		l.s.mu.Lock()
		defer l.s.mu.Unlock()
		l.end()
		close(lost)
	})
	return losing{l, lost}
}

func (l losing) Lost() <-chan struct{} { return l.lost }
