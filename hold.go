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
// must not refer to a Lease that was handed out, which becomes unreachable when its holder forgets it.
type hold struct {
	e        *engine
	call     call
	token    string
	ctx      context.Context //nolint:containedctx // parent of the lease's; hooks and requests carry its values
	queue    *queue
	lease    backend.Lease
	acquired instant // before the acquisition was sent
	granted  instant // after it was answered
	scoped   bool    // released by the engine, after the action has returned
	slot     int     // of a group
	vacated  bool    // the queue has another holder, or none; guarded by the engine's mu
	own      Lease   // the one of the action; unused if the lease is handed out

	until     atomic.Int64 // the trust deadline, an instant; moved under mu
	ended     atomic.Bool  // cause is set
	started   atomic.Bool  // the action was, or the lease was handed out
	returned  atomic.Bool  // the action has, or the lease was given back
	forgotten atomic.Bool  // neither the Lease nor a context of it is reachable
	reported  atomic.Bool  // the loss was announced

	mu      sync.Mutex
	cause   error         // why the context is over; set once
	state   trust         // changes from trusted once
	failure error         // of the last renewal; nil after a success
	expires instant       // when the store may give the lease to another
	inner   *innerContext // of the lease's context; nil until it is needed

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

// grant takes over what the store has answered, by now, to the acquisition.
func (h *hold) grant(l backend.Lease, now instant) {
	h.lease, h.granted = l, now
	h.news.busy = h.e.config.hooks.Acquired != nil // nothing is told before that
	h.expires = h.acquired.add(h.ttl())
	h.until.Store(int64(h.expires.add(-h.call.config.marginOf(h.ttl()))))
}

// maxAt is when MaxHold ends the context; never without one.
func (h *hold) maxAt() instant {
	if d := h.call.config.maxHold; d > 0 {
		return h.acquired.add(d)
	}
	return never
}

// request is what the driver is asked for.
func (h *hold) request() backend.Request {
	return backend.Request{
		Key:      h.call.key,
		Token:    h.token,
		Owner:    h.e.config.node,
		TTL:      h.ttl(),
		Metadata: h.call.config.metadata,
	}
}

// ttl is the lease time asked for.
func (h *hold) ttl() time.Duration { return h.call.config.lease }

func (h *hold) trustedUntil() instant { return instant(h.until.Load()) }

// info describes the lease.
func (h *hold) info() LeaseInfo {
	i := LeaseInfo{
		Name: h.call.name, Node: h.e.config.node, Key: h.e.slotKey(h.call.key, h.slot), Slot: h.slot,
		Acquired: h.e.clock.time(h.acquired), Lasts: h.ttl(),
	}
	if h.lease != nil {
		i.Fence = h.lease.Fence()
	}
	return i
}

// over reports whether the lease's context is over. It reads the clock first, so that it is right also where no timer
// had a chance to run: in a process that was stopped, in a machine that slept.
func (h *hold) over() bool { return h.ended.Load() || h.overAt(h.e.clock.now()) }

// overAt is over for a reading of the clock.
func (h *hold) overAt(now instant) bool {
	if h.ended.Load() {
		return true
	}
	if now.before(h.trustedUntil()) && now.before(h.maxAt()) {
		return false
	}
	h.change(func() bool { return h.age(now) })
	return h.ended.Load()
}

// age ends what now is too late for; mu is held. It reports whether the context is over by it.
func (h *hold) age(now instant) bool {
	switch {
	case h.state == trusted && now.reached(h.trustedUntil()):
		h.state = expired
		return h.mark(lost(ErrExpired, h.failure))
	case now.reached(h.maxAt()):
		return h.mark(lost(ErrMaxHold, nil))
	}
	return false
}

// lose ends a lease that the store says is not ours.
func (h *hold) lose() {
	h.change(func() bool {
		if h.state != trusted {
			return false
		}
		h.state = takenOver
		return h.mark(lost(ErrTakenOver, nil))
	})
}

// end ends the lease's context for a cause that leaves the right itself alone.
func (h *hold) end(cause error) {
	h.change(func() bool { return h.mark(cause) })
}

// mark sets the cause and reports whether it was the first; mu is held.
func (h *hold) mark(cause error) bool {
	if h.cause != nil {
		return false
	}
	h.cause = cause
	h.ended.Store(true)
	if h.inner != nil && h.inner.timer != nil {
		h.inner.timer.Stop()
	}
	return true
}

// change makes a change of state under mu. If the context is over by it, its children are cancelled, the scheduler
// announces the loss, and a caller who waits here for the lease may try.
func (h *hold) change(f func() bool) {
	h.mu.Lock()
	over := f()
	inner, cause := h.inner, h.cause
	h.mu.Unlock()
	if !over {
		return
	}
	if inner != nil {
		inner.cancel(cause)
	}
	if cause != errReleased { //nolint:errorlint // that very value
		h.e.renewals.kick(h)
		h.e.wakeHead(h.queue)
	}
}

// extend moves the trust deadline after the store granted ttl to a request sent at the given instant. It reports false,
// and moves nothing, if the deadline has passed before the answer came: a late answer is not trusted.
func (h *hold) extend(sent instant, ttl time.Duration) (ok bool) {
	now := h.e.clock.now()
	h.change(func() bool {
		over := h.age(now)
		h.expires = max(h.expires, sent.add(ttl))
		h.failure = nil
		if ok = h.state == trusted; ok {
			until := sent.add(ttl - h.call.config.marginOf(ttl))
			h.until.Store(int64(max(h.trustedUntil(), until)))
		}
		return over
	})
	return ok
}

// err is the cause of the context's end, nil while it lives.
func (h *hold) err() error { return h.errAt(h.e.clock.now()) }

func (h *hold) errAt(now instant) error {
	if !h.overAt(now) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// right is what is known of the right itself at this instant.
func (h *hold) right(now instant) (state trust) {
	h.change(func() bool {
		over := h.age(now)
		state = h.state
		return over
	})
	return state
}

// close ends the lease for its holder. It reports what is known of the right, and until when the store has it; lost
// tells that it had ended before.
func (h *hold) close(now instant) (state trust, expires instant, lost bool) {
	h.change(func() bool {
		over := h.age(now)
		first := h.mark(errReleased)
		state, expires = h.state, h.expires
		lost = h.cause != errReleased //nolint:errorlint // that very value
		return first || over
	})
	return state, expires, lost
}
