package leadertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

// store is a driver that answers by script.
type store struct {
	steps []Step

	mu     sync.Mutex
	next   int               // the step of the next attempt
	last   int               // the step of the last attempt; -1 before the first
	fence  uint64            // of the last answer
	leases map[string]*lease // by key

	records
}

var (
	_ backend.Driver  = (*store)(nil)
	_ backend.Records = (*store)(nil)
	_ backend.Limited = (*store)(nil)
)

func newStore(steps []Step) *store {
	if len(steps) == 0 {
		steps = []Step{Fails(backend.WithKind(errors.New("script without steps"), backend.Misconfigured))}
	}
	return &store{steps: slices.Clone(steps), last: -1, leases: make(map[string]*lease)}
}

func (s *store) Name() string { return "leadertest" }

func (s *store) Limits() backend.Limits { return backend.Limits{InProcess: true} }

func (s *store) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	step, fence := s.peek()
	s.fence, s.last = fence, s.next
	s.next = min(s.next+1, len(s.steps)-1)
	switch {
	case step.held:
		return nil, &backend.HeldError{Holder: step.holderAt(fence)}
	case step.err != nil:
		return nil, step.err
	}
	l := newLease(s, req, fence)
	s.leases[req.Key] = l
	if step.loses {
		return newLosing(l, step.lost), nil
	}
	return l, nil
}

// peek returns the next step and its fence, which is a new one if there is a new holder. s.mu is held.
func (s *store) peek() (step Step, fence uint64) {
	step = s.steps[s.next]
	if step.err != nil || step.held && s.next == s.last {
		return step, s.fence
	}
	return step, s.fence + 1
}

func (s *store) Abandon(ctx context.Context, req backend.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases[req.Key]; l != nil && l.token == req.Token {
		l.end()
	}
	return nil
}

func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := ctx.Err(); err != nil {
		return backend.Holder{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if l := s.leases[key]; l != nil && now.Before(l.until) {
		h := l.holder
		h.Remaining = l.until.Sub(now)
		return h, nil
	}
	switch step, fence := s.peek(); {
	case step.held:
		return step.holderAt(fence), nil
	default:
		return backend.Holder{}, step.err
	}
}
