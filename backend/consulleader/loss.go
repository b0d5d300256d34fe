package consulleader

import (
	"sync"
	"time"
)

// lossDelay is how old a lease is when its loss begins to be watched for. Most leases do not get there, and their runs
// would cost the agent another request.
const lossDelay = 200 * time.Millisecond

// lossWatch looks for the end of a lease that its holder did not end. What it sees is a change that has happened, so it
// raises no false alarm; what it does not see is told by the next renewal.
type lossWatch struct {
	lease *lease
	lost  chan struct{}
	close func() // closes lost

	mu       sync.Mutex
	over     bool // the lease
	watching bool
	timer    *time.Timer
	leave    func() // nil while the key is not watched
}

// Lost returns a channel that is closed when the key is deleted, or no longer locked by the session of this lease, and
// when a renewal finds it so. It is watched for by a blocking query, from 200 ms after the first call on, if
// [Options].MaxWatches allows, and if the query fails, from the next renewal on.
func (l *lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		return l.watch.lost
	}
	w := &lossWatch{lease: l, lost: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.lost) })
	l.watch = w
	if l.state != over {
		w.timer = time.AfterFunc(lossDelay, w.begin)
	} else {
		w.over = true
	}
	return w.lost
}

// begin watches the key if it is not watched.
func (w *lossWatch) begin() {
	w.mu.Lock()
	if w.over || w.watching {
		w.mu.Unlock()
		return
	}
	w.watching = true
	w.mu.Unlock()
	leave, err := w.lease.subscribe(&subscriber{see: w.see, fail: w.fail})
	w.mu.Lock()
	switch {
	case err != nil:
		w.watching = false
	case !w.over:
		w.leave = leave
	}
	over := w.over
	w.mu.Unlock()
	if over && err == nil {
		leave()
	}
}

func (w *lossWatch) see(s sight) {
	if w.lease.endedBy(s) {
		w.close()
	}
}

func (w *lossWatch) fail(error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching, w.leave = false, nil
}

// end stops watching.
func (w *lossWatch) end() {
	w.mu.Lock()
	w.over = true
	leave := w.leave
	w.leave = nil
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// endedBy reports whether a sight is of a time after the end of the lease. An older one than the lease proves nothing.
func (l *lease) endedBy(s sight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state != held:
		return false
	case s.pair == nil:
		return s.index > l.fence
	case s.pair.CreateIndex == l.fence:
		return s.pair.Session != l.session.id && s.pair.ModifyIndex > l.index
	}
	return s.pair.CreateIndex > l.fence
}
