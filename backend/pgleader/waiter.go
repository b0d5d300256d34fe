package pgleader

import (
	"context"
	"iter"
	"time"

	"github.com/goleader/leader/backend"
)

// AwaitRelease waits for the notification that the end of a lease sends. All waiters and watchers of a backend share one
// connection. A call costs no goroutine, and no statement if the connection listened before the holder came.
//
// It returns an error, and the caller polls, when the connection is lost or cannot be opened. It need not notice an
// expiry.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l, err := b.feed.join(ctx, key, false)
	if err != nil {
		return err
	}
	defer b.feed.leave(l)
	if !b.feed.covers(l, seen) {
		h, err := b.Inspect(ctx, key)
		if err != nil || h.Free() || h.Seen != seen {
			return err
		}
		b.feed.looked(l, h)
	}
	select {
	case <-l.changed:
		return nil
	case <-l.session.done:
		return l.session.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch looks at the row when a notification tells that the key was taken or freed, and when a lease would end. When its
// connection is lost it opens another, and ends with an error if it cannot.
//
// While anybody watches, acquisitions in the table send notifications too, and commits with a notification wait for each
// other in the whole database.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		w := &watching{b: b, key: key, yield: yield}
		for {
			l, err := b.feed.join(ctx, key, true)
			if err != nil {
				yield(backend.Holder{}, err)
				return
			}
			more := w.follow(ctx, l)
			b.feed.leave(l)
			if !more {
				return
			}
		}
	}
}

// watching is one use of Watch.
type watching struct {
	b       *Backend
	key     string
	yield   func(backend.Holder, error) bool
	yielded bool   // something was
	last    string // its Seen
}

// follow yields changes as long as l is told of them, and reports whether to go on after that.
func (w *watching) follow(ctx context.Context, l *listener) bool {
	for {
		h, err := w.b.Inspect(ctx, w.key)
		if err != nil {
			w.yield(backend.Holder{}, err)
			return false
		}
		if (!w.yielded || h.Seen != w.last) && !w.yield(h, nil) {
			return false
		}
		w.yielded, w.last = true, h.Seen
		if !w.await(ctx, l, h.Remaining) {
			return true
		}
	}
}

// await returns when another look is worth it; remaining is when the lease ends, 0 without one. It reports whether l is
// still told of changes.
func (w *watching) await(ctx context.Context, l *listener, remaining time.Duration) bool {
	var due <-chan time.Time
	d := remaining + time.Millisecond
	if !w.b.feed.certain(l) && (remaining <= 0 || d > lookAgain) {
		remaining, d = lookAgain, lookAgain
	}
	if remaining > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-l.changed:
	case <-ctx.Done():
	case <-l.session.done:
		return false
	}
	return true
}
