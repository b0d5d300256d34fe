package local

import (
	"context"
	"iter"
	"time"

	"github.com/goleader/leader/backend"
)

// AwaitRelease implements [backend.Waiter]: it returns when the key is no longer as it was seen, or when ctx ends.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	h, _, changed := b.look(key, true)
	if h.Seen != seen {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch implements [backend.Watcher]. Expiry is a change as well.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		last := "none yet"
		for ctx.Err() == nil {
			h, until, changed := b.look(key, true)
			if h.Seen != last {
				last = h.Seen
				if !yield(h, nil) {
					return
				}
			}
			await(ctx, changed, until)
		}
		yield(backend.Holder{}, ctx.Err())
	}
}

// await returns at the first of ctx's end, a change, and an instant, of which the zero value is never.
func await(ctx context.Context, changed <-chan struct{}, until time.Time) {
	var expiry <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		expiry = t.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-expiry:
	}
}
