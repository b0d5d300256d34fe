package leader

import (
	"context"
	"errors"
	"fmt"
)

// run gets the lease, runs the action under it and releases it. The error means that the action did not run.
func (e *engine) run(ctx context.Context, c call, action Action, r *RunResult) (err error) {
	hooks := &e.config.hooks
	if hooks.RunStarted != nil {
		ctx = hooks.RunStarted(ctx, c.name)
	}
	if hooks.RunFinished != nil {
		defer func() { hooks.RunFinished(ctx, c.name, *r, err) }() // also when the action does not return
	}
	s := newSeeker(e, &c)
	h, err := s.acquire(ctx)
	r.Attempts = s.attempts
	if err != nil {
		r.Waited = s.since.until(e.clock.now())
		return e.notElected(ctx, &c, action, r, err)
	}
	r.Waited = s.since.until(h.granted)
	defer h.releaseUnused() // hooks may panic
	told := h.announceAcquired()
	if c.config.runKey != "" {
		return e.runOnce(ctx, h, action, r)
	}
	if told && h.over() { // hooks may have taken long
		err := h.err()
		h.finish(e.clock.now()) //nolint:errcheck // announced
		return notRun(c.name, err)
	}
	h.lead(action, r)
	return nil
}

// releaseUnused releases a lease of which nobody has come to the release.
func (h *hold) releaseUnused() {
	if !h.returned.Load() {
		h.finish(h.e.clock.now()) //nolint:errcheck // announced
	}
}

// notRun is the error of a run whose lease was over before its action was started.
func notRun(name string, err error) error { return fmt.Errorf("leader: run %q: %w", name, err) }

// lead runs the action under the lease, and releases it.
func (h *hold) lead(action Action, r *RunResult) {
	h.own.h = h
	returned := false
	defer func() {
		at := h.e.clock.now()
		r.Lost = h.errAt(at)
		r.Lease = h.info()
		r.Lease.Held = h.acquired.until(at)
		if h.call.gate != nil && h.call.op == opCampaign && returned && h.ctx.Err() == nil {
			h.call.gate.parting(h.ctx, r.Lost)
			at = h.e.clock.now()
		}
		h.finish(at) //nolint:errcheck // announced; what the action did stands
	}()
	h.started.Store(true)
	r.Outcome, r.Err = ActionFailed, ErrNoReturn
	if r.Err = action(h.own.Context()); r.Err == nil {
		r.Outcome = Elected
	}
	returned = true
}

// runOnce is lead for a run with a run key, which it marks first. The error means that the action did not run.
func (e *engine) runOnce(ctx context.Context, h *hold, action Action, r *RunResult) error {
	m := newMark(h)
	ours, err := m.make(ctx)
	if ours {
		h.lead(m.takenBackBy(action), r)
		return nil
	}
	h.finish(e.clock.now()) //nolint:errcheck // announced; nothing ran
	switch {
	case err == nil:
		r.Outcome, r.Reason = Skipped, AlreadyRan
		return nil
	case errors.Is(err, ErrLeaseLost):
		return notRun(h.call.name, err)
	}
	e.announceFailed(ctx, h.call.name, err)
	return e.notElected(ctx, &h.call, action, r, err)
}

// notElected makes of an acquisition's error what the failure mode says.
func (e *engine) notElected(ctx context.Context, c *call, action Action, r *RunResult, err error) error {
	if other, ok := errors.AsType[*contended](err); ok {
		r.Outcome, r.Reason = Skipped, Contended
		r.Holder = stateOf(c.name, other.holder)
		return nil
	}
	if _, ok := errors.AsType[passedOver](err); ok {
		r.Outcome, r.Reason = Skipped, NotPreferred
		return nil
	}
	failure, ok := errors.AsType[*BackendError](err)
	if !ok || !failure.passing() || c.op != opRun || ctx.Err() != nil { // its cause may be a failure of another call
		return err
	}
	switch c.config.failure {
	case Skip:
		r.Outcome, r.Reason = Skipped, BackendFailed
		return nil
	case FailOpenRun:
		r.Unguarded = true
		r.Outcome, r.Err = ActionFailed, ErrNoReturn
		if r.Err = action(ctx); r.Err == nil {
			r.Outcome = Elected
		}
		return nil
	case Rethrow:
	}
	return err
}

// handOut gets the lease and leaves it to the caller.
func (e *engine) handOut(ctx context.Context, c call) (*Lease, error) {
	s := newSeeker(e, &c)
	h, err := s.acquire(ctx)
	if other, ok := errors.AsType[*contended](err); ok {
		if other.holder.Owner == "" || other.holder.Kept {
			return nil, fmt.Errorf("leader: acquire %q: %w", c.name, ErrNotElected)
		}
		return nil, fmt.Errorf("leader: acquire %q: %w: held by %s", c.name, ErrNotElected, other.holder.Owner)
	}
	if err != nil {
		return nil, err
	}
	h.started.Store(true)
	l := newLease(h)
	h.announceAcquired()
	return l, nil
}

// campaign leads whenever it can, until ctx ends or lead is done.
func (e *engine) campaign(ctx context.Context, c call, lead Action) error {
	for {
		interruptedIn := false // before lead returned
		var r RunResult
		err := e.run(ctx, c, func(termCtx context.Context) error {
			defer func() { interruptedIn = ctx.Err() != nil }()
			return lead(termCtx)
		}, &r)
		switch {
		case errors.Is(err, ErrLeaseLost) && ctx.Err() == nil:
			continue // before lead was started; ctx may have ended because of another lease
		case err != nil:
			return err
		case interruptedIn, lostIn(r) && ctx.Err() != nil:
			return errors.Join(interrupted(ctx, "campaign", c.name), ownError(r.Err))
		case lostIn(r):
			if own := ownError(r.Err); own != nil {
				e.warnOf(ctx, "leading ended with an error after its lease was lost", c.name, own)
			}
		case r.Err != nil:
			return r.Err
		case !c.config.requeue:
			return nil
		}
	}
}

// lostIn reports whether a term ended otherwise than by the will of its leader.
func lostIn(r RunResult) bool { return r.Lost != nil && !errors.Is(r.Lost, ErrReleased) }

// ownError is err unless it only says that a context ended.
func ownError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLeaseLost) {
		return nil
	}
	return err
}
