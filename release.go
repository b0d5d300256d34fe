package leader

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	releaseTries = 3
	releaseBound = 5 * time.Second
	// quietBound is how long a release waits for a renewal under way.
	quietBound = 100 * time.Millisecond
)

// finish ends a lease whose action has returned, in this order: it is trusted no more and its context is over, no
// renewal is under way, the store is told. It returns the failure of the release, if any, which is announced as well.
func (h *hold) finish(at instant) error {
	if !h.returned.CompareAndSwap(false, true) {
		return nil
	}
	state, expires, lost := h.close(at)
	quiet, cancel := h.e.renewals.remove(h)
	if cancel != nil {
		defer cancel() // it had its time to be answered
	}
	defer h.e.vacate(h) // also if a hook panics
	if lost {
		h.announceLoss(now)
	}
	switch state {
	case expired, takenOver:
		// The store may still have it, or be out of reach: nobody needs to wait for that.
		if state == expired && at.before(expires) {
			go h.release(at, expires) //nolint:errcheck // announced
			return nil
		}
		if !lost {
			h.announceGone(state)
		}
		go h.dispose()
		return nil
	case trusted:
	}
	if quiet != nil {
		await(quiet, quietBound)
		at = h.e.clock.now()
	}
	return h.release(at, expires)
}

// await waits for c to be closed, at most for d.
func await(c <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
	case <-t.C:
	}
}

// release tells the store, in a few tries that end before the lease does. It runs on a context of its own, so that a
// shutdown does not orphan the lease. What must be kept of a minimum lease is computed anew for each try.
func (h *hold) release(at, expires instant) error {
	last := min(at.add(releaseBound), expires)
	ctx := h.ctx
	if !h.e.limits.InProcess || ctx.Err() != nil {
		ctx = h.values() // which allocates
	}
	pause := minPause
	for try := 1; ; try++ {
		err := h.releaseOnce(ctx, at, last)
		if err == nil || errors.Is(err, backend.ErrLost) {
			h.announceReleased()
			return nil
		}
		at = h.e.clock.now().add(pause)
		if try == releaseTries || at.reached(last) {
			failure := h.e.failure("release", h.call.name, err)
			h.announceReleaseFailed(failure)
			return failure
		}
		<-time.After(pause)
		pause *= 2
		ctx = h.values() //nolint:fatcontext // the same each time
	}
}

func (h *hold) releaseOnce(ctx context.Context, at, last instant) error {
	keep := h.minLeft(at)
	if h.e.limits.InProcess {
		return h.lease.Release(ctx, keep)
	}
	ctx, cancel := context.WithTimeout(ctx, min(attempt(h.ttl()), max(0, at.until(last))))
	defer cancel()
	return h.e.tell(ctx, func(ctx context.Context) error { return h.lease.Release(ctx, keep) })
}

// dispose ends what a driver may have for a lease that the store has no more.
func (h *hold) dispose() {
	ctx, cancel := context.WithTimeout(h.values(), attempt(h.ttl()))
	defer cancel()
	_ = h.lease.Release(ctx, 0)
}

// minLeft is what is left of the minimum lease, which counts from when the store has certainly acquired it; nothing if no
// action was started under it.
func (h *hold) minLeft(at instant) time.Duration {
	d := h.call.config.minLease
	if d <= 0 || !h.started.Load() {
		return 0
	}
	return max(0, at.until(h.granted.add(d)))
}

// abandon releases a lease that its holder has forgotten.
func (h *hold) abandon() {
	h.end(lost(ErrAbandoned, nil))
	go h.finish(h.e.clock.now()) //nolint:errcheck // announced
}

// clean frees what an attempt may have left behind: one that was given up, or whose answer came too late to be used. It
// asks until the store has answered or the lease would be over. The channel is closed after the first try.
func (e *engine) clean(ctx context.Context, req backend.Request) <-chan struct{} {
	return e.insist(ctx, req.TTL, func(ctx context.Context) error { return e.abandonOnce(ctx, req) })
}

// cleanKey is clean for one slot of a group.
func (e *engine) cleanKey(ctx context.Context, req backend.Request) {
	e.insist(ctx, req.TTL, func(ctx context.Context) error { return e.abandonKey(ctx, req) })
}

// insist makes a request in the background, again and again until it succeeds or the time of a lease has passed. The
// channel is closed after the first try.
func (e *engine) insist(ctx context.Context, lease time.Duration, f func(ctx context.Context) error) <-chan struct{} {
	tried := make(chan struct{})
	ctx = context.WithoutCancel(ctx)
	go func() {
		end := e.clock.now().add(lease)
		err := f(ctx)
		close(tried)
		var back backoff
		for err != nil {
			wait := back.next()
			if e.clock.now().add(wait).reached(end) {
				return
			}
			<-time.After(wait)
			err = f(ctx)
		}
	}()
	return tried
}

// abandonOnce abandons an attempt, at each slot of a group that it may have.
func (e *engine) abandonOnce(ctx context.Context, req backend.Request) error {
	if e.config.slots == 0 {
		return e.abandonKey(ctx, req)
	}
	var errs []error
	key := req.Key
	for slot := range e.config.slots {
		req.Key = backend.SlotKey(key, slot)
		errs = append(errs, e.abandonKey(ctx, req))
	}
	return errors.Join(errs...)
}

// abandonKey abandons an attempt at one key. It may outlive its bound, but for a goroutine that has nothing else to do.
// The error is nil also if trying again would not help; what is left then ends by its time.
func (e *engine) abandonKey(ctx context.Context, req backend.Request) error {
	ctx, cancel := context.WithTimeout(ctx, attempt(req.TTL))
	defer cancel()
	err := e.driver.Abandon(ctx, req)
	if kind := backend.KindOf(err); kind == backend.Denied || kind == backend.Misconfigured {
		return nil
	}
	return err
}
