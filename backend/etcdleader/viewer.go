package etcdleader

import (
	"context"
	"sync"

	"github.com/goleader/leader/backend"
)

// viewer is one call of Watch.
type viewer struct {
	changed chan struct{}

	mu     sync.Mutex
	latest sight
	err    error
}

// see implements subscriber.
func (v *viewer) see(_ context.Context, s sight, err error) {
	v.mu.Lock()
	if err != nil {
		v.err = err
	} else if s.revision >= v.latest.revision {
		v.latest = s
	}
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

func (v *viewer) state() (sight, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.latest, v.err
}

// run yields holders until the caller wants no more, and returns an error that is still to be told.
func (v *viewer) run(ctx context.Context, yield func(backend.Holder, error) bool) error {
	var last *backend.Holder
	for {
		select {
		case <-v.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		s, err := v.state()
		if err != nil {
			return err
		}
		h, err := holderOf(s.kv)
		if err != nil {
			return err
		}
		if last != nil && last.Seen == h.Seen {
			continue
		}
		last = &h
		if !yield(h, nil) {
			return nil
		}
	}
}
