package zkleader

import (
	"context"
	"iter"
	"maps"
	"time"

	"github.com/goleader/leader/backend"
)

// AwaitRelease watches the node of the holder's term, which a release deletes, as does the end of the holder's
// session. All who wait for one key share one watch.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	path := b.path(key)
	g := b.sights.last(path)
	if g == nil || g.seen() != seen || time.Since(g.last) > recent {
		var err error
		if g, err = b.lookAside(ctx, path); err != nil {
			return err
		}
	}
	if g.seen() != seen || seen == "" {
		return nil
	}
	if g.Token != "" && g.alive {
		w, err := b.watchAside(ctx, g.child(), b.watchTerm)
		if err != nil {
			return classify(ctx, path, err)
		}
		if w.exists {
			return classify(ctx, path, w.wait(ctx))
		}
	}
	return b.awaitChange(ctx, path, seen)
}

// awaitChange watches the node of the key. While the node of a term lives that would tell of every renewal.
func (b *Backend) awaitChange(ctx context.Context, path, seen string) error {
	w, err := b.watchAside(ctx, path, b.watchKey)
	if err != nil {
		return classify(ctx, path, err)
	}
	g, err := b.lookAside(ctx, path)
	if err != nil || g.seen() != seen {
		return err
	}
	return classify(ctx, path, w.wait(ctx))
}

// watchAside returns a watch that the server has.
func (b *Backend) watchAside(ctx context.Context, path string, begin func(*session, string) *watch) (*watch, error) {
	s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	w := begin(s, path)
	return w, w.ready(ctx)
}

// lookAside is look that returns when ctx ends.
func (b *Backend) lookAside(ctx context.Context, path string) (*sight, error) {
	type answer struct {
		g   *sight
		err error
	}
	answers := make(chan answer, 1)
	if !b.spawn(func() {
		g, err := b.look(ctx, path)
		answers <- answer{g, err}
	}) {
		return nil, classify(ctx, path, errClosed)
	}
	select {
	case a := <-answers:
		return a.g, a.err
	case <-ctx.Done():
		return nil, classify(ctx, path, ctx.Err())
	}
}

// Watch yields the holder at once and after each change. It costs a watch and a look for each.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	path := b.path(key)
	return func(yield func(backend.Holder, error) bool) {
		last, first := "", true
		for {
			w, g, err := b.watchAndLook(ctx, path)
			if err != nil {
				yield(backend.Holder{}, err)
				return
			}
			h := g.holder(&b.clock)
			if first || h.Seen != last {
				first, last = false, h.Seen
				h.Metadata = maps.Clone(h.Metadata)
				if !yield(h, nil) {
					return
				}
			}
			if err := w.waitUntil(ctx, h.Remaining); err != nil {
				yield(backend.Holder{}, classify(ctx, path, err))
				return
			}
		}
	}
}

// watchAndLook looks, and returns what watches for the next change of the holder.
func (b *Backend) watchAndLook(ctx context.Context, path string) (*watch, *sight, error) {
	g, err := b.lookAside(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if g.Token != "" && g.alive {
		w, err := b.watchAside(ctx, g.child(), b.watchTerm)
		if err != nil {
			return nil, nil, classify(ctx, path, err)
		}
		if w.exists {
			return w, g, nil
		}
	}
	w, err := b.watchAside(ctx, path, b.watchKey)
	if err != nil {
		return nil, nil, classify(ctx, path, err)
	}
	g, err = b.lookAside(ctx, path)
	return w, g, err
}

// waitUntil waits until the node changes, or what remains of a lease has passed.
func (w *watch) waitUntil(ctx context.Context, remaining time.Duration) error {
	if remaining <= 0 {
		return w.wait(ctx)
	}
	timer := time.NewTimer(remaining + time.Millisecond)
	defer timer.Stop()
	select {
	case <-w.fired:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
