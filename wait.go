package leader

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/goleader/leader/backend"
)

// maxHints is how many hints in a row may come at once before they are no longer followed at once.
const maxHints = 2

// pauses are the rhythms of one caller that waits.
type pauses struct {
	failing backoff
	polling polling
	hints   int // that came at once, in a row
}

// wait stands in line and, at its head, makes attempts until one succeeds, the wait ends, or trying is of no use. The
// last attempt comes at the end of the wait. tried tells that there has been one.
func (s *seeker) wait(ctx context.Context, tried bool) (*hold, error) {
	s.woken = make(chan struct{}, 1)
	s.e.lineUp(s)
	defer s.e.stepOut(s)
	if err := s.standInLine(ctx); err != nil {
		return nil, err
	}
	var p pauses
	for ; ; tried = true {
		if tried {
			s.pause(ctx, &p)
		}
		h, err := s.look(ctx)
		s.e.announceFailed(ctx, s.hold.call.name, err)
		if err == nil || s.e.clock.now().reached(s.ends) || !s.worthwhile(ctx, err) {
			return h, err
		}
	}
}

// standInLine returns nil when s has come to the head in time.
func (s *seeker) standInLine(ctx context.Context) error {
	t := time.NewTimer(s.left())
	defer t.Stop()
	for !s.e.isHead(s) {
		select {
		case <-s.woken:
		case <-t.C:
			if !s.e.clock.now().reached(s.ends) {
				t.Reset(s.left())
				continue
			}
			return s.inLine()
		case <-ctx.Done():
			return interrupted(ctx, "acquire", s.hold.call.name)
		}
	}
	if s.e.clock.now().reached(s.ends) {
		return s.inLine() // those before it gave up at this moment: its own attempt would come too late
	}
	return nil
}

// left is what is left of the wait.
func (s *seeker) left() time.Duration { return max(0, s.e.clock.now().until(s.ends)) }

// inLine is the verdict for a caller that never came to the head of the line: that of those before it.
func (s *seeker) inLine() error {
	last, granted, asking := s.e.lastVerdict(s.queue)
	switch {
	case asking > attempt(s.hold.call.config.lease):
		return s.fail(ErrNoAnswer)
	case last != nil && last.err != nil:
		return last.err
	case last != nil && last.passed:
		return passedOver{}
	case last != nil:
		return &contended{last.holder}
	case granted != nil:
		return s.heldHere(granted)
	}
	return s.fail(ErrNoAnswer)
}

// worthwhile reports whether another attempt may succeed.
func (s *seeker) worthwhile(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	failure, ok := errors.AsType[*BackendError](err)
	if !ok || failure.passing() {
		return ok || errors.Is(err, ErrNotElected)
	}
	// A standby outlives a rotation of credentials, but does not start with wrong ones.
	if s.hold.call.forever() && s.e.answered.Load() {
		s.e.warnOf(ctx, "campaign goes on", s.hold.call.name, err)
		return true
	}
	return false
}

// look is an attempt, or a read where a losing attempt would cost the store more and the lease is known to be held.
func (s *seeker) look(ctx context.Context) (*hold, error) {
	if s.e.limits.LookFirst && s.e.config.slots == 0 && s.last != nil && s.last.err == nil {
		holder, err := s.e.inspect(ctx, s.hold.call.key)
		switch {
		case ctx.Err() != nil:
			return nil, interrupted(ctx, "acquire", s.hold.call.name)
		case err != nil:
			return nil, s.fail(err)
		case !holder.Free():
			return nil, s.heldBy(holder)
		}
	}
	return s.attempt(ctx)
}

// pause returns when the next attempt is worth it: at a hint that the lease was released, at its known expiry, after a
// backoff, at the end of the wait, or when ctx ends.
func (s *seeker) pause(ctx context.Context, p *pauses) {
	if s.e.holder(s.queue) != nil {
		s.sleep(ctx, min(s.left(), maxHint)) // the holder wakes the head
		return
	}
	if s.last.err != nil {
		s.sleep(ctx, min(s.left(), p.failing.next()))
		return
	}
	// After an outage a fleet goes on as slowly as it came.
	p.polling.bound = max(p.polling.bound, p.failing.last)
	p.failing = backoff{}
	switch {
	case s.last.here:
		return // this elector had the lease a moment ago
	case s.last.passed:
		s.awaitTurn(ctx, p)
	case s.e.config.slots > 0 && s.e.tells():
		s.awaitSlots(ctx, p, s.untilExpiry(maxHint/2+rand.N(maxHint/2)))
	case !s.e.tells():
		s.sleep(ctx, s.untilExpiry(p.polling.next()))
	case s.last.holder.Seen != "" || s.learn(ctx):
		s.awaitHint(ctx, p, s.untilExpiry(maxHint/2+rand.N(maxHint/2)))
	default:
		// The key is free meanwhile, or the store does not say: as good as a hint.
		p.hints++
		if s.last.err != nil || !s.last.holder.Free() || p.hints > maxHints {
			s.sleep(ctx, s.untilExpiry(p.polling.next()))
		}
	}
}

// awaitTurn waits until the strategy may prefer this node: at the latest until the next heartbeat, and if somebody leads
// until it releases.
func (s *seeker) awaitTurn(ctx context.Context, p *pauses) {
	period := s.hold.call.gate.heartbeat()
	d := min(s.left(), period/2+rand.N(period/2+1))
	if s.e.tells() && s.learn(ctx) {
		s.awaitHint(ctx, p, d)
		s.hold.call.gate.forget() // whoever released may have resigned
		return
	}
	s.sleep(ctx, d)
}

// untilExpiry shortens a pause to the holder's known expiry and the end of the wait. The small random delay after the
// expiry keeps waiters out of step, and is over the rounding of a store's clock.
func (s *seeker) untilExpiry(d time.Duration) time.Duration {
	if left := s.last.holder.Remaining; left > 0 {
		expiry := s.last.at.add(left + time.Millisecond + rand.N(10*time.Millisecond))
		d = min(d, max(time.Millisecond, s.e.clock.now().until(expiry)))
	}
	return min(d, s.left())
}

// learn asks what to wait for, which a losing attempt need not tell. It reports false if the key is free meanwhile, or
// if the store fails.
func (s *seeker) learn(ctx context.Context) bool {
	holder, err := s.e.inspect(ctx, s.hold.call.key)
	if err != nil {
		s.fail(err) //nolint:errcheck // the next attempt returns its own
		return false
	}
	s.heldBy(holder) //nolint:errcheck // only the verdict is of interest
	return holder.Seen != ""
}

// awaitHint waits for the store to say that the lease was released, for at most d. A hint proves nothing, and one that
// comes at once every time must not make a busy loop.
func (s *seeker) awaitHint(ctx context.Context, p *pauses, d time.Duration) {
	s.hinted(ctx, p, d, func(ctx context.Context) error {
		return s.e.awaitRelease(ctx, s.hold.call.key, s.last.holder.Seen)
	})
}

// hinted waits for a hint, for at most d.
func (s *seeker) hinted(ctx context.Context, p *pauses, d time.Duration, await func(ctx context.Context) error) {
	began := s.e.clock.now()
	hintCtx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := await(hintCtx)
	if hintCtx.Err() != nil {
		p.hints = 0
		return
	}
	if err == nil && began.until(s.e.clock.now()) > minPause/5 {
		p.hints, p.polling = 0, polling{}
		return
	}
	p.hints++
	if err != nil || p.hints > maxHints {
		s.sleep(ctx, min(s.untilExpiry(p.polling.next()), d))
	}
}

// sleep returns after d, when the head of the line is woken, or when ctx ends.
func (s *seeker) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.woken:
	case <-ctx.Done():
	}
}

// inspect asks the store who has a key, without waiting.
func (e *engine) inspect(ctx context.Context, key string) (backend.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAttempt)
	defer cancel()
	return ask(ctx, e, request[backend.Holder]{
		send: func(ctx context.Context) (backend.Holder, error) { return e.driver.Inspect(ctx, key) },
	})
}
