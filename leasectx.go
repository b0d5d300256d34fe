package leader

import (
	"context"
	"time"
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

// leaseContext is the context of an action: a child of the caller's that is over when the lease is. It becomes a context
// of the standard library when somebody first asks for Done, so that a short action that never does costs neither a
// goroutine nor a timer, and so that its children are ordinary ones.
type leaseContext struct {
	parent context.Context //nolint:containedctx // this is a context
	lease  *Lease
}

func (c *leaseContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *leaseContext) Done() <-chan struct{} {
	c.lease.h.over()
	return c.standard().Done()
}

func (c *leaseContext) Err() error {
	if c.lease.h.over() {
		return c.standard().Err()
	}
	if inner := c.lease.h.standard(); inner != nil {
		return inner.Err()
	}
	return c.parent.Err()
}

func (c *leaseContext) Value(key any) any {
	h := c.lease.h
	switch k := key.(type) {
	case leaseKey:
		return c.lease
	case heldKey:
		if k.e == h.e && k.key == h.call.key {
			return h
		}
		return c.parent.Value(key)
	}
	// Another package's key may be the one by which the standard library finds the cause: that must be true already.
	if h.over() {
		return c.standard().Value(key)
	}
	if inner := h.standard(); inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

// standard returns the context of the standard library, a new one if there is none.
func (c *leaseContext) standard() context.Context { return c.lease.h.materialize(c.parent) }

// innerContext is the context of the standard library that a lease's context becomes.
type innerContext struct {
	context.Context //nolint:containedctx // this is a context

	cancel context.CancelCauseFunc
	timer  *time.Timer // for the end of the lease; nil if it is over already
}

// standard returns the context of the standard library if there is one.
func (h *hold) standard() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner == nil {
		return nil
	}
	return h.inner.Context
}

// materialize makes the lease's context one of the standard library, with a timer for its end, which depends on no
// request to the store. If the lease is over it is cancelled on return, also where whoever ended the lease has not come
// to that yet.
func (h *hold) materialize(parent context.Context) context.Context {
	inner, cause := h.innerOf(parent)
	if cause != nil {
		inner.cancel(cause)
	}
	return inner.Context
}

func (h *hold) innerOf(parent context.Context) (inner *innerContext, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner == nil {
		h.inner = &innerContext{}
		h.inner.Context, h.inner.cancel = context.WithCancelCause(parent)
		if h.cause == nil {
			h.inner.timer = time.AfterFunc(h.left(), h.tick)
		}
	}
	return h.inner, h.cause
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
