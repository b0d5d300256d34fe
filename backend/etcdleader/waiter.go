package etcdleader

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/goleader/leader/backend"
)

// AwaitRelease waits for what a watch of the key shows. All waiters for a key share one watch, which stays for a while
// after the last of them, so that a call costs no request when the next holder is known. It returns an error, and the
// caller polls, when the watch ends, because the server that it was on has no leader, or refuses it.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	w := &waiter{seen: parseSeen(seen), done: make(chan error, 1)}
	b.notices.join(ctx, b.place(key), w)
	defer b.notices.leave(b.place(key), w)
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waiter is one call of AwaitRelease.
type waiter struct {
	seen seenState
	done chan error // has room for the one result
}

// see implements subscriber.
func (w *waiter) see(_ context.Context, s sight, err error) {
	if err == nil && !w.seen.hasPassed(s) {
		return
	}
	select {
	case w.done <- err:
	default:
	}
}

// seenState is what a Seen says.
type seenState struct {
	fence    int64
	kept     bool
	revision int64 // when it was so; the store may have been in this state earlier, but not later, than it is told of
}

// parseSeen reads what seen writes. Anything else is a state that no key has.
func parseSeen(text string) seenState {
	fence, kept, isKept := strings.Cut(text, keptMark)
	f, err := strconv.ParseInt(fence, 10, 64)
	if err != nil {
		return seenState{}
	}
	if !isKept {
		return seenState{fence: f, revision: f}
	}
	r, err := strconv.ParseInt(kept, 10, 64)
	if err != nil {
		return seenState{}
	}
	return seenState{fence: f, kept: true, revision: r}
}

// hasPassed reports whether a key that was in the state seen is no longer. A watch may be behind what an attempt saw.
func (st seenState) hasPassed(s sight) bool {
	switch {
	case s.revision < st.revision:
		return false
	case st.kept:
		return s.kv == nil || !s.kept || s.kv.ModRevision != st.revision
	}
	return !s.isHeldSince(st.fence)
}

// Watch yields the holder as a watch of the key shows it, without what remains of the lease.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		if err := b.ready(ctx); err != nil {
			yield(backend.Holder{}, err)
			return
		}
		v := &viewer{changed: make(chan struct{}, 1)}
		b.notices.join(ctx, b.place(key), v)
		defer b.notices.leave(b.place(key), v)
		if err := v.run(ctx, yield); err != nil {
			yield(backend.Holder{}, err)
		}
	}
}
