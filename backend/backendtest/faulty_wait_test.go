package backendtest

import (
	"context"
	"iter"
	"time"

	"github.com/goleader/leader/backend"
)

// subscribe returns the holder of key and a channel that is closed at the next change, and cancels by drop.
func (d *faultyDriver) subscribe(key string) (h backend.Holder, changed chan struct{}, drop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = make(chan struct{})
	d.waiters[changed] = key
	if r := d.records[key]; !d.free(r) {
		h = d.holder(r)
	}
	return h, changed, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiters, changed)
	}
}

// AwaitRelease needs the connection only to subscribe.
func (d *faultyDriver) AwaitRelease(ctx context.Context, key, seen string) error {
	over := ctx.Done()
	switch {
	case d.sin == "waiter returns at once":
		return nil
	case d.sin == "waiter ignores its context",
		d.sin == "waiter hangs on a frozen connection" && d.isFrozen():
		over = d.stopped
	case d.blocking: // what it waits for does not come over the connection
	default:
		if err := d.enter(ctx); err != nil {
			return err
		}
	}
	h, changed, drop := d.subscribe(d.mapped(key))
	defer drop()
	if h.Seen != seen && d.sin != "waiter does not compare" {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-over:
		return ctx.Err()
	}
}

func (d *faultyDriver) isFrozen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.frozen != nil
}

// Watch looks again at each change and, for expiry, now and then.
func (d *faultyDriver) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		last := "none yet"
		left := false
		for ctx.Err() == nil {
			h, changed, drop := d.subscribe(d.mapped(key))
			if d.sin == "watcher skips the present" && last == "none yet" {
				last = h.Seen
			}
			overlooked := d.sin == "watcher overlooks releases" && h.Free() && last != "none yet"
			if h.Seen != last && !left && !overlooked {
				last = h.Seen
				left = !yield(h, nil)
			}
			if left && d.sin != "watcher does not notice that it was left" {
				drop()
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			case <-time.After(mutantTTL):
			}
			drop()
		}
		if !left && d.sin != "watcher ends without an error" {
			yield(backend.Holder{}, ctx.Err())
		}
	}
}
