package leader

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/goleader/leader/backend"
)

// watchPause is the longest time between two looks at a store that does not tell of changes.
const watchPause = time.Second

func (e *engine) state(ctx context.Context, name string) (State, error) {
	h, err := e.look(ctx, name, keyOf(e.config.namespace, name))
	if err != nil {
		return State{}, err
	}
	return stateOf(name, h), nil
}

// look asks the store who has a key, for a user.
func (e *engine) look(ctx context.Context, name, key string) (backend.Holder, error) {
	if ctx.Err() != nil {
		return backend.Holder{}, interrupted(ctx, "inspect", name)
	}
	h, err := e.inspect(ctx, key)
	switch {
	case err == nil:
		return h, nil
	case ctx.Err() != nil:
		return h, interrupted(ctx, "inspect", name)
	}
	return h, e.failure("inspect", name, err)
}

// watching is one use of Watch.
type watching struct {
	e     *engine
	call  call
	yield func(State, error) bool
	last  State
	any   bool // last was yielded
}

func (e *engine) watch(ctx context.Context, name string, yield func(State, error) bool) {
	w := &watching{e: e, call: call{name: name, key: keyOf(e.config.namespace, name)}, yield: yield}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var back backoff
	for ctx.Err() == nil {
		err := w.follow(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		failure := e.failure("watch", name, err)
		if !failure.passing() || errors.Is(err, ErrUnsupported) {
			yield(State{}, failure)
			return
		}
		stale := w.last
		stale.Name, stale.Stale = name, true
		if !w.show(stale) {
			return
		}
		pause(ctx, back.next())
	}
}

// follow yields changes until the caller breaks out, which is nil, or the store fails.
func (w *watching) follow(ctx context.Context) error {
	if watcher, ok := backend.As[backend.Watcher](w.e.driver); ok {
		err := w.followWatcher(ctx, watcher)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for ctx.Err() == nil {
		h, err := w.e.inspect(ctx, w.call.key)
		if err != nil {
			return err
		}
		if !w.show(stateOf(w.call.name, h)) {
			return nil
		}
		w.await(ctx, h)
	}
	return ctx.Err()
}

// followWatcher is follow where the store tells of changes.
func (w *watching) followWatcher(ctx context.Context, watcher backend.Watcher) error {
	for h, err := range watcher.Watch(ctx, w.call.key) {
		if err != nil {
			return err
		}
		if !w.show(stateOf(w.call.name, h)) {
			return nil
		}
	}
	return ctx.Err()
}

// await waits until another look is worth it.
func (w *watching) await(ctx context.Context, h backend.Holder) {
	d := watchPause/2 + rand.N(watchPause/2)
	if h.Remaining > 0 {
		d = min(d, h.Remaining+time.Millisecond)
	}
	if !w.e.tells() || h.Seen == "" {
		pause(ctx, d)
		return
	}
	began := w.e.clock.now()
	hint, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := w.e.awaitRelease(hint, w.call.key, h.Seen)
	switch {
	case err != nil:
		pause(hint, d) // or to the end of hint, if that is sooner
	case began.until(w.e.clock.now()) < minPause/5:
		pause(hint, minPause)
	}
}

// show yields a state that differs from the last one, and reports whether to go on.
func (w *watching) show(s State) bool {
	if w.any && same(w.last, s) {
		return true
	}
	w.last, w.any = s, true
	return w.yield(s, nil)
}

// same reports whether two states differ in nothing but their age.
func same(a, b State) bool {
	return a.Node == b.Node && a.Fence == b.Fence && a.Kept == b.Kept && a.Stale == b.Stale &&
		maps.Equal(a.Metadata, b.Metadata)
}

// pause returns after d or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
