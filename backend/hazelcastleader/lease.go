package hazelcastleader

import (
	"context"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

// lease is a granted right.
type lease struct {
	backend *Backend
	key     string
	token   string
	fence   uint64

	mu   sync.Mutex
	last entry // as it was last known
}

func (l *lease) Fence() uint64 { return l.fence }

// Renew moves the end in two round trips: the clock, and the change.
func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	b := l.backend
	at, err := b.now(ctx)
	if err != nil {
		return err
	}
	e := l.known()
	fresh := !l.holds(e) || e.left(at, b.options.MaxSkew) == 0 // Another renewal may have moved it.
	if fresh {
		if e, err = l.look(ctx); err != nil {
			return err
		}
	}
	for tries := (budget{}); tries.left(); tries.spend(l.holds(e)) {
		if !l.holds(e) || e.left(at, b.options.MaxSkew) == 0 {
			return backend.ErrLost
		}
		next := e.renewed(at, ttl, b.options.MaxSkew)
		if fresh && next.Until == e.Until && next.Clock == e.Clock {
			return nil
		}
		var changed bool
		if e, changed, err = l.change(ctx, e, next); changed || err != nil {
			return err
		}
		fresh = true
	}
	return errBusy
}

// Release ends the lease in one round trip, or in two if the key is to be kept.
func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	if err := checkKeep(keep); err != nil {
		return err
	}
	b, e := l.backend, l.known()
	if e.Until == 0 {
		return b.ready(ctx) // It was released before.
	}
	var at instant
	if keep > 0 {
		var err error
		if at, err = b.now(ctx); err != nil {
			return err
		}
	}
	for tries := (budget{}); tries.left(); tries.spend(l.holds(e)) {
		next := e.freed()
		if keep > 0 && e.left(at, b.options.MaxSkew) > 0 {
			next = e.kept(at, keep)
		}
		now, changed, err := l.change(ctx, e, next)
		if err != nil {
			return err
		}
		if changed {
			if now.Until == 0 && !isSlot(l.key) {
				b.released.put(l.key, now)
			}
			return nil
		}
		if e = now; !l.ours(e) || e.Until == 0 {
			return nil
		}
	}
	return errBusy
}

// known is the entry as it was last known.
func (l *lease) known() entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// learn remembers an entry while it is the lease's.
func (l *lease) learn(e entry) {
	if !l.ours(e) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = e
}

// look reads the entry.
func (l *lease) look(ctx context.Context) (entry, error) {
	e, err := l.backend.read(ctx, l.key)
	if err == nil {
		l.learn(e)
	}
	return e, err
}

// change replaces the entry, and returns what the key has then.
func (l *lease) change(ctx context.Context, e entry, next record) (now entry, changed bool, err error) {
	now, changed, err = l.backend.change(ctx, l.key, e, next)
	if err == nil {
		l.learn(now)
	}
	return now, changed, err
}

// holds reports whether the lease is in an entry.
func (l *lease) holds(e entry) bool { return e.Fence == l.fence && e.Token == l.token }

// ours reports whether nobody else has had the key.
func (l *lease) ours(e entry) bool { return e.Fence == l.fence && e.spender() == l.token }
