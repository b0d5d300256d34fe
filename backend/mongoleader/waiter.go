package mongoleader

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/goleader/leader/backend"
)

// doubtPeriod is the longest time between two looks of a watcher: a hint may be lost.
const doubtPeriod = 10 * time.Second

// A watcher gives up when more than maxBroken streams in a row have not lasted for as long as steady: whoever watches
// may pause.
const (
	maxBroken = 3
	steady    = time.Second
)

// AwaitRelease waits for the change stream to tell that the key was taken or freed. All waiters and watchers of a
// backend share one stream, and one connection, which is opened by the first of them and closed when there has been none
// for some seconds.
//
// Where the deployment has no change streams, or the user must not open one, the error wraps [errors.ErrUnsupported], and
// package leader polls.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	l, err := b.feed.listen(ctx, key)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer b.feed.leave(key, l)
	h, err := b.Inspect(ctx, key)
	if err != nil || h.Free() || h.Seen != seen {
		return err
	}
	select {
	case <-l.changed:
		return nil
	case <-l.relay.done:
		return l.relay.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch looks at the key whenever the change stream tells of a change, and when a lease ends by itself. Where there are no
// change streams the error is that of [Backend.AwaitRelease].
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
	var opened time.Time
	for broken := 0; ; {
		if l == nil || l.over() {
			if broken++; time.Since(opened) > steady {
				broken = 0
			}
			if broken > maxBroken {
				return l.relay.err
			}
			b.feed.leave(key, l)
			var err error
			if err = b.ready(ctx); err == nil {
				l, err = b.feed.listen(ctx, key)
			}
			if err != nil {
				return cmp.Or(ctx.Err(), err)
			}
			opened = time.Now()
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
