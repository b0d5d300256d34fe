package consulleader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	maxIdle  = 64          // sessions that wait for their next lease
	idleTime = time.Minute // for how long they do
)

// pool keeps sessions that hold nothing, and of which no request is unanswered, for the next lease of the same TTL.
// They are not renewed while they wait.
type pool struct {
	backend *Backend

	mu     sync.Mutex
	closed bool
	idle   []idleSession // in the order in which they came
	sweep  *time.Timer   // nil while there are none
}

type idleSession struct {
	*session

	since  time.Time
	retire func()
}

func newPool(b *Backend) *pool { return &pool{backend: b} }

// takeFresh returns a session that can be used as it is, nil if there is none.
func (p *pool) takeFresh(ttl time.Duration) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.last(ttl); i >= 0 && p.idle[i].fresh() {
		return p.remove(i)
	}
	return nil
}

// take returns a session that was renewed, or created, for this call.
func (p *pool) take(ctx context.Context, ttl time.Duration) (*session, error) {
	for s := p.takeAny(ttl); s != nil; s = p.takeAny(ttl) {
		if s.fresh() {
			return s, nil
		}
		err := p.backend.renewSession(ctx, s)
		if errors.Is(err, backend.ErrLost) {
			continue // It ended while it was idle.
		}
		if err != nil {
			p.backend.retireAside(ctx, s, "")
			return nil, err
		}
		return s, nil
	}
	return p.create(ctx, ttl, p.backend.lockDelay(ttl))
}

// takeAny returns an idle session, nil if there is none.
func (p *pool) takeAny(ttl time.Duration) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.last(ttl); i >= 0 {
		return p.remove(i)
	}
	return nil
}

// last finds the session that came last: the others may well end unused.
func (p *pool) last(ttl time.Duration) int {
	for i, s := range slices.Backward(p.idle) {
		if s.ttl == ttl {
			return i
		}
	}
	return -1
}

func (p *pool) remove(i int) *session {
	s := p.idle[i].session
	p.idle = slices.Delete(p.idle, i, i+1)
	return s
}

// create makes a session aside, so that one whose caller has gone meanwhile is kept for the next rather than lost.
func (p *pool) create(ctx context.Context, ttl, delay time.Duration) (*session, error) {
	type result struct {
		session *session
		err     error
	}
	made := make(chan result)
	ok := p.backend.house.start(ctx, func(aside context.Context) {
		s, err := p.backend.createSession(aside, ttl, delay)
		select {
		case made <- result{s, err}:
		case <-ctx.Done():
			if err == nil && (delay != p.backend.lockDelay(ttl) || !p.keep(aside, s)) {
				_ = p.backend.destroySession(aside, s) // It is not renewed.
			}
		}
	})
	if !ok {
		return nil, errClosed
	}
	select {
	case r := <-made:
		return r.session, r.err
	case <-ctx.Done():
		return nil, classify(ctx, ctx.Err())
	}
}

// put gives back a session that holds nothing. Only the sessions of leases are kept: all of one TTL are alike.
func (p *pool) put(ctx context.Context, s *session) {
	if !s.clean() || s.delay != p.backend.lockDelay(s.ttl) || !p.keep(ctx, s) {
		p.backend.retireAside(ctx, s, "")
	}
}

// keep reports whether there is room for a session.
func (p *pool) keep(ctx context.Context, s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return false
	}
	retire := func() { p.backend.retireAside(ctx, s, "") }
	p.idle = append(p.idle, idleSession{s, time.Now(), retire})
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleTime, p.dismiss)
	}
	return true
}

// dismiss destroys the sessions that nobody has used for a while.
func (p *pool) dismiss() {
	p.mu.Lock()
	var old []idleSession
	for len(p.idle) > 0 && time.Since(p.idle[0].since) >= idleTime {
		old = append(old, p.idle[0])
		p.idle = p.idle[1:]
	}
	switch {
	case p.closed || len(p.idle) == 0:
		p.sweep = nil
	default:
		p.sweep.Reset(time.Until(p.idle[0].since.Add(idleTime)))
	}
	p.mu.Unlock()
	for _, s := range old {
		s.retire()
	}
}

// close destroys what is idle.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	for _, s := range idle {
		s.retire()
	}
}
