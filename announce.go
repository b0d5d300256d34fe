package leader

import (
	"context"
	"errors"
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
	idle := !a.busy
	a.busy = true
	if !idle {
		a.waiting = append(a.waiting, f)
	}
	a.mu.Unlock()
	switch {
	case !idle:
	case when == later:
		go a.call(f)
	default:
		a.call(f)
	}
}

// call calls a hook, for which the announcer was made busy, and then what came before it had returned, also if it panics.
func (a *announcer) call(f func()) {
	returned := false
	defer func() {
		if !returned {
			a.call(a.next())
		}
	}()
	for ; f != nil; f = a.next() {
		f()
	}
	returned = true
}

// next returns what waits; nil, and the announcer is no longer busy, if nothing does.
func (a *announcer) next() (f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		a.busy = false
		return nil
	}
	f, a.waiting = a.waiting[0], a.waiting[1:]
	return f
}

// announceFailed tells of an attempt, if the store failed at it.
func (e *engine) announceFailed(ctx context.Context, name string, err error) {
	f := e.config.hooks.AcquireFailed
	if f == nil || err == nil || ctx.Err() != nil { // its cause may be a failure of another call
		return
	}
	if failure, ok := errors.AsType[*BackendError](err); ok {
		f(ctx, name, failure)
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
		h.news.call(func() { f(h.ctx, h.info()) })
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

// announceGone tells how a lease ended whose holder had released it, but whose action returned only after that.
func (h *hold) announceGone(state trust) {
	if state == takenOver {
		h.announceReleased()
		return
	}
	h.mu.Lock()
	failure := h.failure
	h.mu.Unlock()
	h.announceReleaseFailed(h.e.failure("release", h.call.name, lost(ErrExpired, failure)))
}
