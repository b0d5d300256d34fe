package leader

import (
	"context"
	"sync"
	"time"
)

// announcer calls the hooks of one lease in order, one at a time and without a lock. Whoever finds one running leaves
// its own to be called after it.
type announcer struct {
	mu      sync.Mutex
	waiting []func()
	busy    bool
}

// manner is where hooks are called.
type manner bool

const (
	now   manner = false // before the announcement returns, unless others are being called
	later manner = true  // on a goroutine of their own
)

func (a *announcer) say(when manner, f func()) {
	a.mu.Lock()
	a.waiting = append(a.waiting, f)
	idle := !a.busy
	a.busy = true
	a.mu.Unlock()
	switch {
	case !idle:
	case when == later:
		go a.call()
	default:
		a.call()
	}
}

// begin calls the first hook of a lease, for which the announcer was made busy, and then what came before it was called.
func (a *announcer) begin(first func()) {
	first()
	a.call()
}

// call calls what waits. A hook that panics ends the announcements of its lease.
func (a *announcer) call() {
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 {
			a.busy = false
			a.mu.Unlock()
			return
		}
		next := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		next()
	}
}

// values is the context of hooks and of requests that the caller's end does not stop.
func (h *hold) values() context.Context {
	if h.ctx.Done() == nil {
		return h.ctx
	}
	return context.WithoutCancel(h.ctx)
}

// announceAcquired reports whether there was anybody to tell.
func (h *hold) announceAcquired() bool {
	f := h.e.config.hooks.Acquired
	if f != nil {
		h.news.begin(func() { f(h.ctx, h.info()) })
	}
	return f != nil
}

func (h *hold) announceRenewed(took time.Duration) {
	if f := h.e.config.hooks.Renewed; f != nil {
		h.news.say(now, func() { f(h.values(), h.info(), took) })
	}
}

// announceRenewFailed is called with the scheduler's lock held.
func (h *hold) announceRenewFailed(err error, warn bool) {
	f := h.e.config.hooks.RenewFailed
	if f == nil && !warn {
		return
	}
	h.news.say(later, func() {
		if warn {
			h.e.warn(h.values(), "lease cannot be renewed", h.info(), err)
		}
		if f != nil {
			f(h.values(), h.info(), err)
		}
	})
}

// announceLoss tells once why the lease ended before its holder was done with it.
func (h *hold) announceLoss(when manner) {
	h.mu.Lock()
	cause := h.cause
	h.mu.Unlock()
	if cause == errReleased || !h.reported.CompareAndSwap(false, true) { //nolint:errorlint // that very value
		return
	}
	h.news.say(when, func() {
		h.e.warn(h.values(), "lease lost", h.info(), cause)
		if f := h.e.config.hooks.Lost; f != nil {
			f(h.values(), h.info(), cause)
		}
	})
}

func (h *hold) announceReleased() {
	if f := h.e.config.hooks.Released; f != nil {
		h.news.say(now, func() { f(h.values(), h.info()) })
	}
}

func (h *hold) announceReleaseFailed(err error) {
	h.news.say(now, func() {
		h.e.warn(h.values(), "release failed; the lease ends by itself", h.info(), err)
		if f := h.e.config.hooks.ReleaseFailed; f != nil {
			f(h.values(), h.info(), err)
		}
	})
}
