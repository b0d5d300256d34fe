package etcdleader

import (
	"context"
	"time"
)

// watchAfter is how long a lease is held before its key is watched: a short run is not worth a watch.
const watchAfter = 50 * time.Millisecond

// Lost is closed when a watch, a renewal or a release finds that the key or the lease is gone. The watch begins a moment
// after the first call.
func (t *term) Lost() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pooled != nil && t.watch == nil {
		t.watch = time.AfterFunc(watchAfter, t.startWatch)
	}
	return t.lost
}

func (t *term) startWatch() {
	t.mu.Lock()
	begin := t.pooled != nil && !t.watching
	t.watching = t.watching || begin
	t.mu.Unlock()
	if !begin {
		return
	}
	t.follow()
	if t.lease() == nil {
		t.backend.notices.leave(t.place, t) // it ended meanwhile, and may have left too early
	}
}

// rewatch starts the watch again if it has ended.
func (t *term) rewatch() {
	t.mu.Lock()
	asked := t.watch != nil
	t.mu.Unlock()
	if asked {
		t.startWatch()
	}
}

// see implements subscriber.
func (t *term) see(ctx context.Context, s sight, err error) {
	t.mu.Lock()
	if err != nil {
		t.watching = false
	}
	// What is older than the term, as a watch that was there before may show at first, says nothing of it.
	gone := err == nil && t.releases == 0 && s.revision >= t.fence && !s.isHeldSince(t.fence)
	t.mu.Unlock()
	if gone {
		t.lose(ctx)
	}
}
