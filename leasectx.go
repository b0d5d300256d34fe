package leader

import (
	"context"
	"time"

	"github.com/goleader/leader/internal/leasekey"
)

type (
	// leaseKey asks a context for the innermost lease under which it runs.
	leaseKey struct{}
	// heldKey asks a context whether it runs under a lease that an engine has of a key.
	heldKey struct {
		e   *engine
		key string
	}
)

// leaseContext is the context of an action, and is its Lease by another name: a child of the caller's context that is
// over when the lease is. It becomes a context of the standard library when somebody first asks for Done, so that a short
// action that never does costs neither a goroutine nor a timer, and so that its children are ordinary ones.
type leaseContext Lease

func (c *leaseContext) Deadline() (time.Time, bool) { return c.h.ctx.Deadline() }

func (c *leaseContext) Done() <-chan struct{} {
	c.h.over()
	return c.h.materialize().Done()
}

func (c *leaseContext) Err() error {
	if c.h.over() {
		return c.h.materialize().Err()
	}
	return c.h.standard().Err()
}

func (c *leaseContext) Value(key any) any {
	switch k := key.(type) {
	case leaseKey:
		return (*Lease)(c)
	case heldKey:
		if k.e == c.h.e && k.key == c.h.call.key {
			return c.h
		}
		return c.h.ctx.Value(key)
	case leasekey.Named:
		if string(k) == c.h.call.name {
			return (*Lease)(c)
		}
		return c.h.ctx.Value(key)
	}
	// Another package's key may be the one by which the standard library finds the cause: that must be true already.
	if c.h.over() {
		return c.h.materialize().Value(key)
	}
	return c.h.standard().Value(key)
}

// innerContext is the context of the standard library that a lease's context becomes.
type innerContext struct {
	context.Context //nolint:containedctx // this is a context

	cancel context.CancelCauseFunc
	timer  *time.Timer // for the end of the lease; nil if it is over already
}

// standard returns the context of the standard library if there is one, else its parent.
func (h *hold) standard() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner == nil {
		return h.ctx
	}
	return h.inner.Context
}

// materialize makes the lease's context one of the standard library, with a timer for its end, which depends on no
// request to the store. If the lease is over it is cancelled on return, also where whoever ended the lease has not come
// to that yet.
func (h *hold) materialize() context.Context {
	inner, cause := h.innerOrNew()
	if cause != nil {
		inner.cancel(cause)
	}
	return inner.Context
}

func (h *hold) innerOrNew() (inner *innerContext, cause error) {
	h.mu.Lock()
	inner, cause = h.inner, h.cause
	h.mu.Unlock()
	if inner != nil {
		return inner, cause
	}
	// Without mu: the parent may be another lease's context, which ends at this question, and tells the scheduler.
	made := &innerContext{}
	made.Context, made.cancel = context.WithCancelCause(h.ctx)
	h.mu.Lock()
	if h.inner == nil {
		h.inner = made
		if h.cause == nil {
			made.timer = time.AfterFunc(h.left(), h.tick)
		}
	}
	inner, cause = h.inner, h.cause
	h.mu.Unlock()
	if inner != made {
		made.cancel(nil) // somebody else was first
	}
	return inner, cause
}

// left is the time until the context ends unless the lease is extended.
func (h *hold) left() time.Duration {
	return max(0, h.e.clock.now().until(earliest(h.trustedUntil(), h.maxAt())))
}

// tick ends the context, or waits for the instant to which its end has moved meanwhile.
func (h *hold) tick() {
	if h.over() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.inner.timer.Reset(h.left())
	}
}
