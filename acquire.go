package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// grace is how long a caller that gives up waits for the store to be told.
const grace = 50 * time.Millisecond

var errTooLate = errors.New("acquired too late to be trusted")

// verdict is what a request for a lease brought: a holder, or a failure, or, with neither, the lease.
type verdict struct {
	held   bool
	holder backend.Holder
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
	call     *call
	queue    *queue
	hold     *hold // what the next request is made for
	since    instant
	ends     instant // of the wait
	attempts int
	doubt    bool        // the outcome of a request for hold is unknown
	gaveUp   atomic.Bool // nobody wants what a late answer brings
	last     verdict     // of the last request or look
	pauses   pauses
	woken    chan struct{} // receives when the head of the line should look; nil unless waiting
}

// acquire gets the lease that s asks for. The error is a *contended if another has it, a *BackendError if the store
// failed, wraps ctx's if that ended, and is nil exactly when there is a lease.
func (s *seeker) acquire(ctx context.Context) (*hold, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx, "acquire", s.call.name)
	}
	if h, ok := ctx.Value(heldKey{s.e, s.call.key}).(*hold); ok && !h.returned.Load() {
		return nil, fmt.Errorf("leader: acquire %q: %w", s.call.name, ErrReentrant)
	}
	s.queue = s.e.enter(s.call.key)
	defer s.e.leave(s.queue)
	s.since = s.e.clock.now()
	s.newToken(ctx)
	h, err := s.seek(ctx)
	if err != nil && s.doubt {
		s.gaveUp.Store(true)
		await(s.e.clean(ctx, s.call.name, s.hold.req), grace)
	}
	return h, err
}

// newToken begins an acquisition; the same token is sent again only after an answer was lost.
func (s *seeker) newToken(ctx context.Context) {
	s.doubt = false
	s.hold = &hold{e: s.e, call: *s.call, ctx: ctx, queue: s.queue, req: backend.Request{
		Key:      s.call.key,
		Token:    rand.Text(),
		Owner:    s.e.config.node,
		TTL:      s.call.config.lease,
		Metadata: s.call.config.metadata,
	}}
}

func (s *seeker) seek(ctx context.Context) (*hold, error) {
	switch {
	case s.call.forever():
		s.ends = never
	case s.call.config.wait > 0:
		s.ends = s.since.add(s.call.config.wait)
	default:
		return s.attempt(ctx)
	}
	return s.wait(ctx)
}

// attempt makes one request, unless this elector has the lease itself.
func (s *seeker) attempt(ctx context.Context) (*hold, error) {
	if h := s.e.holder(s.queue); h != nil {
		return nil, s.heldHere(h)
	}
	bound := attempt(s.call.config.lease)
	if !s.e.claim(ctx, s.queue, bound) {
		if ctx.Err() != nil {
			return nil, interrupted(ctx, "acquire", s.call.name)
		}
		return nil, s.fail(errNoAnswer)
	}
	if h := s.e.holder(s.queue); h != nil {
		s.e.unclaim(s.queue, nil, verdict{})
		return nil, s.heldHere(h)
	}
	return s.request(ctx, bound)
}

// request asks the store. The caller has the claim; it ends with the answer, also with one that nobody waits for.
func (s *seeker) request(ctx context.Context, bound time.Duration) (*hold, error) {
	t := time.Now()
	h := s.hold
	h.acquired, h.wall = s.e.clock.at(t), t
	b := &h.asking
	if h.attempts > 0 {
		b = new(boundContext) // the first may still be in use
	}
	h.attempts++
	s.attempts++
	b.set(ctx, t, bound)
	defer b.stop()
	l, err := s.tryAcquire(b, h.req)
	if err == nil {
		return s.granted(ctx, l)
	}
	err = s.refused(b, err)
	if ctx.Err() != nil {
		return nil, interrupted(ctx, "acquire", s.call.name)
	}
	return nil, err
}

// tryAcquire is the driver's, aside if need be.
func (s *seeker) tryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if !s.e.limits.Blocking {
		return s.e.driver.TryAcquire(ctx, req)
	}
	return ask(ctx, func() (backend.Lease, error) { return s.e.driver.TryAcquire(ctx, req) },
		func(l backend.Lease, _ error) {
			s.e.unclaim(s.queue, nil, verdict{})
			if l != nil && s.gaveUp.Load() {
				s.e.clean(ctx, s.call.name, req)
			}
		})
}

// granted makes a lease of the store's yes, if it came in time and is still wanted.
func (s *seeker) granted(ctx context.Context, l backend.Lease) (*hold, error) {
	h := s.hold
	h.granted(l)
	s.e.answered.Store(true)
	s.e.adviseOnce()
	switch {
	case s.e.clock.now().reached(h.trustedUntil()):
		err := s.fail(errTooLate)
		s.e.unclaim(s.queue, nil, s.last)
		s.e.clean(ctx, s.call.name, h.req)
		s.newToken(ctx)
		return nil, err
	case ctx.Err() != nil:
		s.doubt = true // so that it is freed
		s.e.unclaim(s.queue, nil, verdict{})
		return nil, interrupted(ctx, "acquire", s.call.name)
	}
	s.e.unclaim(s.queue, h, verdict{})
	s.e.renewals.add(h)
	h.listen()
	return h, nil
}

// refused makes an error of anything but a yes.
func (s *seeker) refused(ctx context.Context, err error) error {
	if errors.Is(err, errNoAnswer) {
		s.doubt = true
		return s.fail(err) // the claim ends with the answer
	}
	defer func() { s.e.unclaim(s.queue, nil, s.last) }()
	if !errors.Is(err, backend.ErrHeld) {
		if errors.Is(err, backend.ErrLost) {
			s.newToken(s.hold.ctx)
			return s.fail(err)
		}
		if backend.KindOf(err) == backend.Unknown && ctx.Err() != nil {
			err = backend.WithKind(err, backend.Unavailable)
		}
		failure := s.fail(err)
		s.doubt = s.doubt || failure.passing()
		return failure
	}
	s.e.answered.Store(true)
	s.e.adviseOnce()
	var holder backend.Holder
	if held, ok := errors.AsType[*backend.HeldError](err); ok {
		holder = held.Holder
	}
	return s.heldBy(holder)
}

// fail makes a failure of the store the last verdict.
func (s *seeker) fail(err error) *BackendError {
	if errors.Is(err, errNoAnswer) || errors.Is(err, errTooLate) {
		err = backend.WithKind(err, backend.Unavailable)
	}
	s.last = verdict{err: s.e.failure("acquire", s.call.name, err), at: s.e.clock.now()}
	return s.last.err
}

func (s *seeker) heldBy(holder backend.Holder) error {
	s.last = verdict{held: true, holder: holder, at: s.e.clock.now()}
	return &contended{holder}
}

// heldHere says that this elector has the lease itself.
func (s *seeker) heldHere(h *hold) error {
	return s.heldBy(backend.Holder{
		Owner: h.req.Owner, Fence: h.lease.Fence(), Since: h.wall, Metadata: h.req.Metadata,
		Remaining: max(0, s.e.clock.now().until(h.trustedUntil())),
	})
}
