package k8sleader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

var _ backend.LossNotifier = (*lease)(nil)

// lossAfter is how long a lease is held before its object is watched. A short run is over by then and costs no watch.
const lossAfter = 100 * time.Millisecond

// loss follows the object of a lease, and tells when the lease is over.
type loss struct {
	lease *lease
	told  chan struct{} // closed when it is over
	tell  func()        // closes told, once

	mu        sync.Mutex
	timer     *time.Timer
	cancel    context.CancelFunc // ends the goroutine; nil while there is none
	following bool
	stopped   bool
}

// Lost returns a channel that is closed when the object shows another holder, is deleted or edited, or when the lease
// has expired. It is watched from a moment after the first call on until Release. When a watch fails, the next one is
// opened after the next renewal, or when the lease has expired.
func (l *lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loss == nil {
		told := make(chan struct{})
		l.loss = &loss{lease: l, told: told, tell: sync.OnceFunc(func() { close(told) })}
		l.loss.begin()
	}
	return l.loss.told
}

// begin follows the object in a moment.
func (s *loss) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(lossAfter, s.resume)
}

// resume follows the object if nothing does.
func (s *loss) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.following {
		return
	}
	b := s.lease.backend
	ctx, cancel := context.WithCancel(b.watches.ctx)
	if !b.watches.start(func() { s.run(ctx) }) {
		cancel()
		return
	}
	s.following, s.cancel = true, cancel
}

// stop ends the goroutine for good.
func (s *loss) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.timer.Stop()
	if s.cancel != nil {
		s.cancel()
	}
}

// run follows the object until the lease is over, or the watch fails.
func (s *loss) run(ctx context.Context) {
	for ctx.Err() == nil {
		over, err := s.follow(ctx)
		if over {
			s.tell()
			s.stop()
			return
		}
		if !errors.Is(err, errWatchEnded) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.following = false
	if !s.stopped {
		s.timer.Reset(max(lossAfter, time.Until(s.lease.alive().end)))
	}
}

// follow returns true when the lease is over, and an error when that cannot be told.
func (s *loss) follow(ctx context.Context) (over bool, err error) {
	if time.Until(s.lease.alive().end) <= 0 {
		return true, nil
	}
	b, t := s.lease.backend, s.lease.term
	f, err := b.follow(ctx, t.name)
	if err != nil {
		return false, err
	}
	defer f.leave()
	for {
		v, err := f.now(ctx)
		if err != nil {
			return errors.Is(err, errUnreadable), err
		}
		alive := s.lease.alive()
		// What was read before the lease was granted says nothing about it.
		if v.state == nil || v.rv >= alive.rv && !t.holds(v.state) {
			return true, nil
		}
		left := time.Until(alive.end)
		if left <= 0 {
			return true, nil
		}
		if err := f.next(ctx, left); err != nil {
			return false, err
		}
	}
}
