package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/goleader/leader/backend"
)

// renewal is one request to renew a lease.
type renewal struct {
	sent     instant
	deadline instant // when it is no longer waited for
	cancel   context.CancelFunc
}

// start makes a renewal on a goroutine of its own; s.mu is held. The request is bounded by a fifth of the lease and by
// half of what remains, so that there is time for another.
func (s *scheduler) start(h *hold, now instant) {
	if h.schedule.outstanding >= maxOutstanding {
		return
	}
	if s.waiting >= maxRenewals {
		if !h.schedule.stalled {
			h.schedule.stalled = true
			s.stalled = append(s.stalled, h)
		}
		return
	}
	bound := max(time.Millisecond, min(h.ttl()/5, now.until(h.trustedUntil())/2))
	ctx, cancel := context.WithTimeout(h.values(), bound)
	r := &renewal{sent: now, deadline: now.add(bound), cancel: cancel}
	h.schedule.current = r
	h.schedule.outstanding++
	s.waiting++
	go func() {
		defer cancel()
		err := h.lease.Renew(ctx, h.ttl())
		s.answered(h, r, err)
	}()
}

// giveUp stops waiting for a renewal whose time is up; s.mu is held. It may still be answered.
func (s *scheduler) giveUp(h *hold, now instant) {
	r := h.schedule.current
	if r == nil || now.before(r.deadline) {
		return
	}
	s.stopWaiting(h)
	s.failed(h, r, now, ErrNoAnswer)
}

// answered takes in the answer of a renewal, also of one that was given up.
func (s *scheduler) answered(h *hold, r *renewal, err error) {
	s.mu.Lock()
	now := s.e.clock.now()
	waited := h.schedule.current == r
	if waited {
		s.stopWaiting(h)
	}
	s.done(h)
	switch {
	case err == nil:
		h.schedule.backoff, h.schedule.failing, h.schedule.warned = 0, 0, false
		h.schedule.renewAt = r.sent.add(rhythm(h.ttl()))
	case waited && !errors.Is(err, backend.ErrLost):
		s.failed(h, r, now, err)
	}
	s.mu.Unlock()

	switch {
	case err == nil:
		if h.extend(r.sent, h.ttl()) {
			h.announceRenewed(r.sent.until(now))
		}
	case errors.Is(err, backend.ErrLost):
		h.lose()
	}
	s.kick(h)
}

// stopWaiting frees the place of h's renewal, if there is one; s.mu is held.
func (s *scheduler) stopWaiting(h *hold) {
	if h.schedule.current != nil {
		h.schedule.current = nil
		s.waiting--
	}
	s.wakeStalled()
}

// wakeStalled lets the scheduler look at the lease that has been stalled for longest, if there is a place for it; s.mu is
// held. Whoever is looked at wakes the next one, so that a lease which needs no place any more does not keep it.
func (s *scheduler) wakeStalled() {
	for len(s.stalled) > 0 && s.waiting < maxRenewals {
		next := s.stalled[0]
		s.stalled = s.stalled[1:]
		next.schedule.stalled = false
		if !next.schedule.removed {
			now := s.e.clock.now()
			s.put(next, now, now)
			return
		}
	}
}

// done counts an answer; s.mu is held.
func (s *scheduler) done(h *hold) {
	h.schedule.outstanding--
	if h.schedule.outstanding == 0 && h.schedule.quiet != nil {
		close(h.schedule.quiet)
		h.schedule.quiet = nil
	}
}

// failed plans the next renewal after one that failed; s.mu is held. A failure is not a loss: renewing goes on until the
// trust deadline, with a backoff that grows, but takes at most a quarter of what remains.
func (s *scheduler) failed(h *hold, r *renewal, now instant, err error) {
	st := &h.schedule
	if st.removed {
		return
	}
	st.backoff = min(max(2*st.backoff, h.ttl()/50), h.ttl()/10, maxAttempt)
	wait := min(st.backoff, max(minPause/5, now.until(h.trustedUntil())/4))
	st.renewAt = now.add(wait/2 + rand.N(wait/2+1))
	if st.failing == 0 {
		st.failing = r.sent
	}
	warn := !st.warned && st.failing.until(now) > h.ttl()/3
	st.warned = st.warned || warn
	h.mu.Lock()
	h.failure = err
	h.mu.Unlock()
	h.announceRenewFailed(h.e.failure("renew", h.call.name, err), warn)
}

// extendBy makes one renewal for at least d, which the caller waits for.
func (h *hold) extendBy(ctx context.Context, d time.Duration) error {
	ttl, err := h.extension(d)
	if err != nil {
		return inv("extend", err)
	}
	if err := h.err(); err != nil {
		return err
	}
	s := &h.e.renewals
	if !s.begin(h) {
		return h.e.failure("renew", h.call.name, backend.WithKind(ErrNoAnswer, backend.Unavailable))
	}
	sent := h.e.clock.now()
	bounded, cancel := context.WithTimeout(ctx, min(attempt(h.ttl()), sent.until(h.trustedUntil())))
	defer cancel()
	take := func(err error) {
		s.end(h)
		switch {
		case err == nil:
			h.extend(sent, ttl)
		case errors.Is(err, backend.ErrLost):
			h.lose()
		}
	}
	_, err = ask(bounded, h.e, request[struct{}]{
		send: errorOnly(func(ctx context.Context) error { return h.lease.Renew(ctx, ttl) }),
		late: func(_ struct{}, err error) { take(err) },
	})
	if !errors.Is(err, ErrNoAnswer) {
		take(err)
	}
	if over := h.err(); over != nil {
		return over
	}
	if err != nil {
		if ctx.Err() != nil {
			return interrupted(ctx, "extend", h.call.name)
		}
		return h.e.failure("renew", h.call.name, err)
	}
	h.announceRenewed(sent.until(h.e.clock.now()))
	if h.e.limits.FixedTTL {
		s.keepUntil(h, sent.add(d))
	}
	return nil
}

// extension is the TTL that a renewal asks for so that the lease lasts for at least d.
func (h *hold) extension(d time.Duration) (time.Duration, error) {
	limits := h.e.limits
	if d <= 0 {
		return 0, fmt.Errorf("%w: Extend(%v): must be positive", ErrInvalidOption, d)
	}
	if limits.FixedTTL {
		return h.ttl(), nil
	}
	if limits.MaxTTL > 0 && d > limits.MaxTTL {
		return 0, fmt.Errorf("%w: Extend(%v): the backend's maximum is %v", ErrInvalidOption, d, limits.MaxTTL)
	}
	return max(d, h.minLeft(h.e.clock.now()), limits.MinTTL), nil
}

// begin counts a renewal that somebody else makes; it reports false if too many are unanswered.
func (s *scheduler) begin(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.schedule.outstanding >= maxOutstanding {
		return false
	}
	h.schedule.outstanding++
	return true
}

func (s *scheduler) end(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done(h)
}
