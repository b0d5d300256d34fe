package hazelcastleader

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/goleader/leader/backend"
)

// doubtPeriod is the longest time between two looks of a watcher: a hint may be lost.
const doubtPeriod = 10 * time.Second

// AwaitRelease waits for an entry listener to tell that the key was taken or freed. All waiters and watchers of a backend
// share one listener, which is registered by the first of them and removed when there has been none for some seconds.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	l, err := b.feed.listen(ctx, key)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer b.feed.leave(key, l)
	looked := make(chan error, 1)
	// The look may outlive its context.
	err = b.feed.aside(func() {
		h, err := b.Inspect(ctx, key)
		if err == nil && !h.Free() && h.Seen == seen {
			return
		}
		looked <- err
	})
	if err != nil {
		return err
	}
	select {
	case err := <-looked:
		return err
	case <-l.changed:
		return nil
	case <-l.relay.done:
		return l.relay.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch looks at the key whenever the entry listener tells of a change, and when a lease ends by itself.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		if err := b.watch(ctx, key, yield); err != nil {
			yield(backend.Holder{}, err)
		}
	}
}

// watch returns an error that is still to be told.
func (b *Backend) watch(ctx context.Context, key string, yield func(backend.Holder, error) bool) error {
	var l *listener
	defer func() { b.feed.leave(key, l) }()
	last, first := "", true
	for {
		if l == nil || l.over() {
			b.feed.leave(key, l)
			var err error
			if err = b.ready(ctx); err == nil {
				l, err = b.feed.listen(ctx, key)
			}
			if err != nil {
				return cmp.Or(ctx.Err(), err)
			}
		}
		h, err := b.Inspect(ctx, key)
		if err != nil {
			return err
		}
		if (first || h.Seen != last) && !yield(h, nil) {
			return nil
		}
		last, first = h.Seen, false
		l.await(ctx, h.Remaining)
	}
}

// over reports whether the listener's stream has ended.
func (l *listener) over() bool {
	select {
	case <-l.relay.done:
		return true
	default:
		return false
	}
}

// await returns when another look is worth it; remaining is when the lease ends, 0 without one.
func (l *listener) await(ctx context.Context, remaining time.Duration) {
	d := doubtPeriod
	if remaining > 0 {
		d = min(d, remaining+time.Millisecond)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.changed:
	case <-l.relay.done:
	case <-ctx.Done():
	}
}
