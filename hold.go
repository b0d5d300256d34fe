package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// errReleased is the cause of a context whose action has returned, or whose holder released it.
var errReleased = lost(ErrReleased, nil)

// hold is the engine's side of a lease: until when it is trusted, and why it ended. The scheduler refers to it, so it
// must not refer to the Lease, which becomes unreachable when its holder forgets it.
type hold struct {
	e        *engine
	call     call
	req      backend.Request
	ctx      context.Context //nolint:containedctx // the caller's, for the values that hooks and requests carry
	queue    *queue
	lease    backend.Lease
	acquired instant       // before the acquisition was sent
	wall     time.Time     // the same, for people
	maxAt    instant       // when MaxHold ends the context; never without one
	scoped   bool          // released by the engine, after the action has returned
	attempts int           // requests for it
	finished chan struct{} // closed by finish; nil unless somebody listens

	asking, releasing boundContext

	until     atomic.Int64 // the trust deadline, an instant; moved under mu
	ended     atomic.Bool  // cause is set
	started   atomic.Bool  // the action was, or the lease was handed out
	returned  atomic.Bool  // the action has, or the lease was given back
	forgotten atomic.Bool  // neither the Lease nor a context of it is reachable
	reported  atomic.Bool  // the loss was announced

	mu      sync.Mutex
	cause   error           // why the context is over; set once
	state   trust           // changes from trusted once
	failure error           // of the last renewal; nil after a success
	expires instant         // when the store may give the lease to another
	inner   context.Context //nolint:containedctx // see leaseContext
	cancel  context.CancelCauseFunc
	timer   *time.Timer

	schedule schedule // guarded by the scheduler
	news     announcer
}

// trust is what is known of the right itself; a context can be over while it still stands.
type trust uint8

const (
	trusted   trust = iota
	expired         // the trust deadline passed; the store may or may not still have the lease
	takenOver       // the store said that it is not ours
)

// granted takes over what the store has answered to the acquisition.
func (h *hold) granted(l backend.Lease) {
	h.lease = l
	h.expires = h.acquired.add(h.req.TTL)
	h.until.Store(int64(h.expires.add(-h.call.config.marginOf(h.req.TTL))))
	h.maxAt = never
	if d := h.call.config.maxHold; d > 0 {
		h.maxAt = h.acquired.add(d)
	}
}

func (h *hold) trustedUntil() instant { return instant(h.until.Load()) }

// info describes the lease.
func (h *hold) info() LeaseInfo {
	i := LeaseInfo{Name: h.call.name, Node: h.req.Owner, Key: h.req.Key, Acquired: h.wall}
	if h.lease != nil {
		i.Fence = h.lease.Fence()
	}
	return i
}

// over reports whether the lease's context is over. It reads the clock first, so that it is right also where no timer
// had a chance to run: in a process that was stopped, in a machine that slept.
func (h *hold) over() bool {
	if h.ended.Load() {
		return true
	}
	now := h.e.clock.now()
	if now.before(h.trustedUntil()) && now.before(h.maxAt) {
		return false
	}
	return h.age(now)
}

// age ends what now is too late for, and reports whether the context is over.
func (h *hold) age(now instant) bool {
	h.mu.Lock()
	first := false
	switch {
	case h.state == trusted && now.reached(h.trustedUntil()):
		h.state = expired
		first = h.mark(lost(ErrExpired, h.failure))
	case now.reached(h.maxAt):
		first = h.mark(lost(ErrMaxHold, nil))
	}
	over := h.cause != nil
	h.mu.Unlock()
	if first {
		h.spread()
	}
	return over
}

// lose ends a lease that the store says is not ours.
func (h *hold) lose() {
	h.mu.Lock()
	first := false
	if h.state == trusted {
		h.state = takenOver
		first = h.mark(lost(ErrTakenOver, nil))
	}
	h.mu.Unlock()
	if first {
		h.spread()
	}
}

// end ends the lease's context for a cause that leaves the right itself alone.
func (h *hold) end(cause error) {
	h.mu.Lock()
	first := h.mark(cause)
	h.mu.Unlock()
	if first {
		h.spread()
	}
}

// mark sets the cause and reports whether it was the first; mu is held.
func (h *hold) mark(cause error) bool {
	if h.cause != nil {
		return false
	}
	h.cause = cause
	h.ended.Store(true)
	if h.timer != nil {
		h.timer.Stop()
	}
	return true
}

// spread cancels the context and tells those who wait here for the end of the lease's trust.
func (h *hold) spread() {
	h.mu.Lock()
	cancel, cause := h.cancel, h.cause
	h.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	h.e.wakeHead(h.queue)
	if !h.released() {
		h.e.renewals.kick(h)
	}
}

// extend moves the trust deadline after the store granted ttl to a request sent at the given instant. It reports false,
// and moves nothing, if the deadline has passed before the answer came: a late answer is not trusted.
func (h *hold) extend(sent instant, ttl time.Duration) bool {
	h.age(h.e.clock.now())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expires = max(h.expires, sent.add(ttl))
	h.failure = nil
	if h.state != trusted {
		return false
	}
	until := sent.add(ttl - h.call.config.marginOf(ttl))
	h.until.Store(int64(max(h.trustedUntil(), until)))
	return true
}

// err is the cause of the context's end, nil while it lives.
func (h *hold) err() error {
	if !h.over() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// released reports whether the context ended because its holder was done.
func (h *hold) released() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause == errReleased //nolint:errorlint // that very value
}

// right is what is known of the right itself, at this moment.
func (h *hold) right() trust {
	h.age(h.e.clock.now())
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// listen ends a lease as soon as its driver learns that it is lost.
func (h *hold) listen() {
	notifier, ok := h.lease.(backend.LossNotifier)
	if !ok {
		return
	}
	h.finished = make(chan struct{})
	go func() {
		select {
		case <-notifier.Lost():
			h.lose()
		case <-h.finished:
		}
	}()
}
