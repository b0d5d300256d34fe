package k8sleader

import (
	"context"
	"errors"
	"iter"
	"maps"
	"time"

	"github.com/goleader/leader/backend"
)

// AwaitRelease watches the Lease. All who follow one Lease in a process share one watch, which stays open for some
// seconds after the last of them, so that a call mostly costs no request.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	f, err := b.follow(ctx, objectName(key))
	if err != nil {
		return err
	}
	defer f.leave()
	for {
		v, err := f.now(ctx)
		if err != nil {
			return err
		}
		if !v.taken() || v.seen() != seen {
			return nil
		}
		if err := f.next(ctx, 0); err != nil {
			return err
		}
	}
}

// Watch yields the holder, and again after each change. It watches the Lease, and reads it when a lease has not been
// renewed for its time, which the server does not notice.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		if err := b.watch(ctx, objectName(key), yield); err != nil {
			yield(backend.Holder{}, err)
		}
	}
}

// watch returns nil when the caller wants no more.
func (b *Backend) watch(ctx context.Context, name string, yield func(backend.Holder, error) bool) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	f, err := b.follow(ctx, name)
	if err != nil {
		return err
	}
	defer func() { f.leave() }()
	var last *backend.Holder
	for {
		v, err := f.now(ctx)
		if err == nil && v.expired() && (last == nil || !last.Free()) {
			v, err = b.get(ctx, name) // A watch may be silent because nothing comes through.
		}
		if err != nil {
			return err
		}
		h := v.holder()
		if last == nil || !sameHolder(*last, h) {
			last = &h
			if !yield(h, nil) {
				return nil
			}
		}
		err = f.next(ctx, h.Remaining)
		if !errors.Is(err, errWatchEnded) {
			if err != nil {
				return err
			}
			continue
		}
		// The server ends every watch after some time.
		f.leave()
		if f, err = b.follow(ctx, name); err != nil {
			return err
		}
	}
}

// sameHolder compares what a change of holder changes.
func sameHolder(a, b backend.Holder) bool {
	return a.Seen == b.Seen && a.Owner == b.Owner && a.Fence == b.Fence && maps.Equal(a.Metadata, b.Metadata)
}

// follower is somebody who follows a Lease.
type follower struct {
	backend *Backend
	topic   *topic
	changed <-chan struct{}
	left    bool
}

// follow returns when the server tells of every change from now on.
func (b *Backend) follow(ctx context.Context, name string) (*follower, error) {
	t, err := b.watches.join(name) //nolint:contextcheck // The watch serves others after this call.
	if err != nil {
		return nil, err
	}
	f := &follower{backend: b, topic: t}
	for {
		changed, opened, _, ended := b.watches.status(t)
		switch {
		case ended != nil:
			f.leave()
			return nil, ended
		case opened:
			f.changed = changed
			return f, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.leave()
			return nil, ctx.Err()
		}
	}
}

func (f *follower) leave() {
	if !f.left {
		f.left = true
		f.backend.watches.leave(f.topic)
	}
}

// now is the Lease as it is. It is read once for each watch, after it was opened.
func (f *follower) now(ctx context.Context) (view, error) {
	b, t := f.backend, f.topic
	changed, _, looked, ended := b.watches.status(t)
	if ended != nil {
		return view{}, ended
	}
	f.changed = changed
	v, known := b.memory.recall(t.name)
	if looked && known {
		return v, nil
	}
	v, err := b.get(ctx, t.name)
	if err == nil {
		b.watches.markLooked(t)
	}
	return v, err
}

// next returns after the next change, or after the given time unless that is 0.
func (f *follower) next(ctx context.Context, within time.Duration) error {
	var expiry <-chan time.Time
	if within > 0 {
		timer := time.NewTimer(within)
		defer timer.Stop()
		expiry = timer.C
	}
	select {
	case <-f.changed:
	case <-expiry:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	_, _, _, ended := f.backend.watches.status(f.topic) //nolint:dogsled // Only the end matters.
	return ended
}
