package leader

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/goleader/leader/backend"
)

// pauses are the rhythms of one caller that waits.
type pauses struct {
	failing backoff
	polling polling
	hints   int // that came at once, in a row
}

// wait stands in line and, at its head, makes attempts until one succeeds, the wait ends, or trying is of no use. The
// last attempt comes at the end of the wait.
func (s *seeker) wait(ctx context.Context) (*hold, error) {
	s.woken = make(chan struct{}, 1)
	s.e.lineUp(s)
	defer s.e.stepOut(s)
	if err := s.standInLine(ctx); err != nil {
		return nil, err
	}
	for {
		last := s.e.clock.now().reached(s.ends)
		h, err := s.look(ctx)
		if err == nil || last || !s.worthwhile(ctx, err) {
			return h, err
		}
		s.pause(ctx)
	}
}

// standInLine returns nil when s has come to its head.
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
			return interrupted(ctx, "acquire", s.call.name)
		}
	}
	return nil
}

// left is what is left of the wait.
func (s *seeker) left() time.Duration { return max(0, s.e.clock.now().until(s.ends)) }

// inLine is the verdict for a caller that never came to the head of the line: that of those before it.
func (s *seeker) inLine() error {
	if h := s.e.holder(s.queue); h != nil {
		return s.heldHere(h)
	}
	last, asking := s.e.lastVerdict(s.queue)
	switch {
	case last.err != nil:
		s.last = last
		return last.err
	case last.held && !asking:
		s.last = last
		return &contended{last.holder}
	}
	return s.fail(errNoAnswer)
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
	if s.call.forever() && s.e.answered.Load() {
		s.e.warnOf(ctx, "campaign goes on", s.call.name, err)
		return true
	}
	return false
}

// look is an attempt, or a read where a losing attempt would cost the store more and the lease is known to be held.
func (s *seeker) look(ctx context.Context) (*hold, error) {
	if s.e.limits.LookFirst && s.last.held {
		holder, err := s.e.inspect(ctx, s.call)
		if err == nil && !holder.Free() {
			return nil, s.heldBy(holder)
		}
	}
	return s.attempt(ctx)
}

// pause returns when the next attempt is worth it: at a hint that the lease was released, at its known expiry, after a
// backoff, at the end of the wait, or when ctx ends.
func (s *seeker) pause(ctx context.Context) {
	if s.e.holder(s.queue) != nil {
		s.sleep(ctx, min(s.left(), maxHint)) // the holder wakes the head
		return
	}
	if !s.last.held {
		s.sleep(ctx, min(s.left(), s.pauses.failing.next(maxPause)))
		return
	}
	s.pauses.failing = backoff{}
	if s.e.waiter == nil || !s.seen(ctx) {
		s.sleep(ctx, s.untilExpiry(s.pauses.polling.next()))
		return
	}
	s.awaitHint(ctx, s.untilExpiry(maxHint/2+rand.N(maxHint/2))) //nolint:gosec // jitter
}

// untilExpiry shortens a pause to the holder's known expiry and the end of the wait. The small random delay after the
// expiry keeps waiters out of step, and is over the rounding of a store's clock.
func (s *seeker) untilExpiry(d time.Duration) time.Duration {
	if left := s.last.holder.Remaining; left > 0 {
		expiry := s.last.at.add(left + time.Millisecond + rand.N(10*time.Millisecond)) //nolint:gosec // jitter
		d = min(d, max(time.Millisecond, s.e.clock.now().until(expiry)))
	}
	return min(d, s.left())
}

// seen makes sure that it is known what to wait for: an answer need not tell the holder.
func (s *seeker) seen(ctx context.Context) bool {
	if s.last.holder.Seen != "" {
		return true
	}
	holder, err := s.e.inspect(ctx, s.call)
	if err != nil || holder.Seen == "" {
		return false
	}
	s.heldBy(holder) //nolint:errcheck // only the verdict is of interest
	return true
}

// awaitHint waits for the store to say that the lease was released, for at most d. A hint proves nothing, and one that
// comes at once every time must not make a busy loop.
func (s *seeker) awaitHint(ctx context.Context, d time.Duration) {
	began := s.e.clock.now()
	hintCtx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := s.e.waiter.AwaitRelease(hintCtx, s.call.key, s.last.holder.Seen)
	if hintCtx.Err() != nil {
		s.pauses.hints = 0
		return
	}
	if err == nil && began.until(s.e.clock.now()) > minPause/5 {
		s.pauses.hints = 0
		return
	}
	s.pauses.hints++
	if err != nil || s.pauses.hints > 2 {
		s.sleep(ctx, min(s.untilExpiry(s.pauses.polling.next()), d))
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

// inspect asks the store who has the key of a call, without waiting.
func (e *engine) inspect(ctx context.Context, c *call) (backend.Holder, error) {
	b := withBound(ctx, time.Now(), maxAttempt)
	defer b.stop()
	if !e.limits.Blocking {
		return e.driver.Inspect(b, c.key)
	}
	return ask(b, func() (backend.Holder, error) { return e.driver.Inspect(b, c.key) }, func(backend.Holder, error) {})
}
