package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// grace is how long a caller that gives up waits for the store to be told.
const grace = 50 * time.Millisecond

var errTooLate = errors.New("acquired too late to be trusted")

// verdict is what a request that did not bring the lease brought: a failure, or a holder, who may be unknown.
type verdict struct {
	holder backend.Holder
	here   bool    // this elector has it
	passed bool    // the strategy prefers another candidate
	at     instant // when the answer came
	err    *BackendError
}

// contended says that another has the lease. It does not leave the package.
type contended struct{ holder backend.Holder }

func (c *contended) Error() string { return ErrNotElected.Error() }
func (c *contended) Unwrap() error { return ErrNotElected }

// seeker is one call on its way to a lease.
type seeker struct {
	e        *engine
	queue    *queue
	hold     *hold // what the next request is made for
	first    hold
	since    instant
	ends     instant       // of the wait
	attempts int           // requests sent
	doubt    bool          // the outcome of a request for hold is unknown
	gaveUp   atomic.Bool   // nobody wants what a late answer brings
	at       atomic.Int32  // the slot tried last
	last     *verdict      // of the last request or look; nil before
	woken    chan struct{} // receives when the head of the line should look; nil unless waiting
}

func newSeeker(e *engine, c *call) *seeker {
	s := &seeker{e: e}
	s.hold = &s.first
	s.hold.call = *c
	return s
}

// acquire gets the lease that s asks for. The error is a *contended if another has it, a *BackendError if the store
// failed, wraps ctx's if that ended, and is nil exactly when there is a lease.
func (s *seeker) acquire(ctx context.Context) (h *hold, err error) {
	started := time.Now()
	s.since = s.e.clock.at(started)
	if ctx.Err() != nil {
		return nil, interrupted(ctx, "acquire", s.hold.call.name)
	}
	if s.reentrant(ctx) {
		return nil, fmt.Errorf("leader: acquire %q: %w", s.hold.call.name, ErrReentrant)
	}
	var claimed bool
	s.queue, claimed = s.e.enter(s.hold.call.key, s.since)
	defer func() {
		if h == nil { // also if a strategy or a driver panicked
			s.e.leave(s.queue)
		}
	}()
	s.begin(ctx)
	if h, err = s.seek(ctx, started, claimed); err == nil {
		return h, nil
	}
	if ctx.Err() != nil {
		err = interrupted(ctx, "acquire", s.hold.call.name) // whatever was found meanwhile
	}
	if s.doubt {
		s.gaveUp.Store(true)
		await(s.e.clean(ctx, s.hold.request()), grace)
	}
	return nil, err
}

// reentrant reports whether ctx runs under a lease that this elector has of the key.
func (s *seeker) reentrant(ctx context.Context) bool {
	if ctx.Value(leaseKey{}) == nil {
		return false
	}
	h, ok := ctx.Value(heldKey{s.e, s.hold.call.key}).(*hold)
	return ok && !h.returned.Load()
}

// begin makes the token of an acquisition; the same token is sent again only after an answer was lost.
func (s *seeker) begin(ctx context.Context) {
	s.doubt = false
	h := s.hold
	h.e, h.queue, h.scoped = s.e, s.queue, h.call.op != opAcquire
	h.ctx = ctx
	if !h.scoped {
		h.ctx = context.WithoutCancel(ctx)
	}
	if n := s.e.config.slots; n > 0 {
		s.at.Store(rand.N(int32(n))) //nolint:gosec // a number of slots
	}
	if s.e.limits.InProcess {
		h.token = newLocalToken()
	} else {
		h.token = newToken()
	}
}

// seek makes the first attempt, and those of a call that waits. started is a reading of the clock from the beginning of
// the call; claimed tells that nobody else here is after the key.
func (s *seeker) seek(ctx context.Context, started time.Time, claimed bool) (h *hold, err error) {
	s.ends = s.since.add(s.hold.call.config.wait)
	if s.hold.call.forever() {
		s.ends = never
	}
	waits := s.ends > s.since
	switch {
	case claimed:
		h, err = s.request(ctx, started, started.Add(attempt(s.hold.call.config.lease)))
	case !waits:
		h, err = s.attempt(ctx)
	}
	s.e.announceFailed(ctx, s.hold.call.name, err)
	if !waits || h != nil || err != nil && !s.worthwhile(ctx, err) {
		return h, err
	}
	return s.wait(ctx, claimed)
}

// attempt makes one request, unless this elector has the lease itself. Its bound includes the wait for a request of
// another caller to end.
func (s *seeker) attempt(ctx context.Context) (*hold, error) {
	deadline := time.Now().Add(attempt(s.hold.call.config.lease))
	held, ok := s.e.claim(ctx, s.queue, deadline)
	switch {
	case held != nil:
		return nil, s.heldHere(held)
	case ok:
		return s.request(ctx, time.Now(), deadline)
	case ctx.Err() != nil:
		return nil, interrupted(ctx, "acquire", s.hold.call.name)
	}
	return nil, s.fail(ErrNoAnswer)
}

// passedOver says that the strategy prefers another candidate. It does not leave the package.
type passedOver struct{}

func (passedOver) Error() string { return ErrNotElected.Error() }
func (passedOver) Unwrap() error { return ErrNotElected }

// allowed is nil if this node may try for the lease.
func (s *seeker) allowed(ctx context.Context) error {
	ok, err := s.hold.call.gate.allow(ctx)
	if ctx.Err() != nil {
		return interrupted(ctx, "acquire", s.hold.call.name)
	}
	if failure, failed := errors.AsType[*BackendError](err); failed {
		s.last = &verdict{err: failure, at: s.e.clock.now()}
		return failure
	}
	if err != nil || ok {
		return err
	}
	s.last = &verdict{passed: true, at: s.e.clock.now()}
	return passedOver{}
}

// request asks the store; t is a reading of the clock from before it. The caller has the claim, which ends with the
// answer, also with one that nobody waits for.
func (s *seeker) request(ctx context.Context, t, deadline time.Time) (*hold, error) {
	asked := false
	defer func() {
		if !asked { // a strategy or a driver panicked
			s.e.unclaim(s.queue, nil)
		}
	}()
	if s.hold.call.gate != nil {
		if err := s.allowed(ctx); err != nil {
			asked = true
			s.e.unclaim(s.queue, s.last)
			return nil, err
		}
		t = time.Now()
		deadline = t.Add(attempt(s.hold.ttl()))
	}
	s.hold.acquired = s.e.clock.at(t)
	s.attempts++
	got, err := s.tryAcquire(ctx, deadline)
	asked = true
	if err == nil {
		s.hold.slot = got.slot
		return s.granted(ctx, got.lease)
	}
	err = s.refused(err)
	if ctx.Err() != nil {
		return nil, interrupted(ctx, "acquire", s.hold.call.name)
	}
	return nil, err
}

// tryAcquire is the driver's, bounded.
func (s *seeker) tryAcquire(ctx context.Context, deadline time.Time) (taken, error) {
	req := s.hold.request()
	if s.e.limits.InProcess {
		return s.e.take(ctx, req, &s.at)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return ask(ctx, s.e, request[taken]{
		send:  func(ctx context.Context) (taken, error) { return s.e.take(ctx, req, &s.at) },
		again: s.again,
		late:  s.takeLate(ctx, req),
	})
}

// taken is a lease as a driver grants it.
type taken struct {
	lease backend.Lease
	slot  int // of a group
}

// take makes one attempt, at any slot of a group.
func (e *engine) take(ctx context.Context, req backend.Request, at *atomic.Int32) (taken, error) {
	if e.config.slots > 0 {
		return e.takeSlot(ctx, req, at)
	}
	l, err := e.driver.TryAcquire(ctx, req)
	return taken{lease: l}, err
}

// again notes that the request is sent once more, because the first had no answer.
func (s *seeker) again() {
	s.doubt = true
	s.attempts++
	s.hold.acquired = s.e.clock.now()
}

// takeLate takes the answer of a request that was given up. A lease is left to the next attempt, which has the same
// token, unless there will be none.
func (s *seeker) takeLate(ctx context.Context, req backend.Request) func(taken, error) {
	return func(got taken, _ error) {
		s.e.unclaim(s.queue, nil)
		if got.lease != nil && s.gaveUp.Load() {
			s.e.clean(ctx, req)
		}
	}
}

// granted makes a lease of the store's yes, if it came in time and is still wanted.
func (s *seeker) granted(ctx context.Context, l backend.Lease) (*hold, error) {
	now := s.hold.acquired
	if !s.e.limits.InProcess {
		now = s.e.clock.now()
	}
	h := s.hold
	h.grant(l, now)
	s.e.hasAnswered(ctx)
	switch {
	case now.reached(h.trustedUntil()):
		err := s.fail(errTooLate)
		s.e.unclaim(s.queue, s.last)
		s.e.clean(ctx, h.request())
		s.hold = &hold{call: h.call}
		s.begin(ctx)
		return nil, err
	case ctx.Err() != nil:
		s.doubt = true // so that it is freed
		s.e.unclaim(s.queue, nil)
		return nil, interrupted(ctx, "acquire", s.hold.call.name)
	}
	if s.doubt && s.e.config.slots > 0 && s.e.slots == nil {
		s.e.settleOthers(ctx, h)
	}
	s.e.occupy(s.queue, h)
	s.e.renewals.add(h, now)
	return h, nil
}

// refused makes an error of anything but a yes.
func (s *seeker) refused(err error) error {
	if errors.Is(err, ErrNoAnswer) {
		s.doubt = true
		return s.fail(err) // the claim ends with the answer
	}
	defer func() { s.e.unclaim(s.queue, s.last) }()
	if !errors.Is(err, backend.ErrHeld) {
		if errors.Is(err, backend.ErrLost) {
			s.begin(s.hold.ctx)
			return s.fail(err)
		}
		failure := s.fail(err)
		s.doubt = s.doubt || failure.passing()
		return failure
	}
	s.e.hasAnswered(s.hold.ctx)
	var holder backend.Holder
	if held, ok := errors.AsType[*backend.HeldError](err); ok {
		holder = held.Holder
	}
	return s.heldBy(holder)
}

// fail makes a failure of the store the last verdict.
func (s *seeker) fail(err error) *BackendError {
	s.last = &verdict{err: s.e.failure("acquire", s.hold.call.name, err), at: s.e.clock.now()}
	return s.last.err
}

func (s *seeker) heldBy(holder backend.Holder) error {
	s.last = &verdict{holder: holder, at: s.e.clock.now()}
	return &contended{holder}
}

// heldHere says that this elector has the lease itself.
func (s *seeker) heldHere(h *hold) error {
	err := s.heldBy(backend.Holder{
		Owner: s.e.config.node, Fence: h.lease.Fence(), Since: s.e.clock.time(h.acquired),
		Metadata:  h.call.config.metadata,
		Remaining: max(0, s.e.clock.now().until(h.trustedUntil())),
	})
	s.last.here = true
	return err
}
