package leader

import (
	"context"
	"time"
)

// queue is what an elector knows of one key while somebody here wants it or holds it. The engine's mu guards it.
//
// Callers that wait stand in line, and only the first of them talks to the store. At most one request for the key is
// under way, given up ones included.
type queue struct {
	key    string
	users  int           // callers, holders and requests that refer to it
	held   *hold         // the newest lease that this elector acquired and has not released
	asking bool          // a request for the key is under way
	idle   chan struct{} // closed when no request is under way any more; nil while nobody waits for that
	line   []*seeker
	last   verdict // of the last request
}

// enter returns the queue of key, for a caller that leaves it later.
func (e *engine) enter(key string) *queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[key]
	if q == nil {
		q = &queue{key: key}
		e.queues[key] = q
	}
	q.users++
	return q
}

// leave gives back what enter returned.
func (e *engine) leave(q *queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(q)
}

// drop counts one user less; mu is held.
func (e *engine) drop(q *queue) {
	q.users--
	if q.users == 0 {
		delete(e.queues, q.key)
	}
}

// claim waits until no request for the key is under way and makes the caller the one that has it. It reports false when
// ctx ends first.
func (e *engine) claim(ctx context.Context, q *queue, d time.Duration) bool {
	if e.tryClaim(q) == nil {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		idle := e.tryClaim(q)
		if idle == nil {
			return true
		}
		select {
		case <-idle:
		case <-t.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// tryClaim returns nil if the caller now has the request, else a channel that is closed when the request ends.
func (e *engine) tryClaim(q *queue) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !q.asking {
		q.asking = true
		q.users++
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	return q.idle
}

// unclaim ends the request that claim began. h is the lease that it brought, if any.
func (e *engine) unclaim(q *queue, h *hold, v verdict) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.asking = false
	q.last = v
	if q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
	if h != nil {
		q.held = h
		q.users++
	}
	e.drop(q)
}

// vacate ends the holding that unclaim began.
func (e *engine) vacate(h *hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := h.queue
	if q.held == h {
		q.held = nil
	}
	q.wake()
	e.drop(q)
}

// holder returns the lease that this elector has of the key and still trusts, if any.
func (e *engine) holder(q *queue) *hold {
	e.mu.Lock()
	h := q.held
	e.mu.Unlock()
	if h == nil || h.over() {
		return nil
	}
	return h
}

// lastVerdict is what the last request for the key brought, for those who stand in line behind it.
func (e *engine) lastVerdict(q *queue) (v verdict, asking bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return q.last, q.asking
}

// lineUp puts s at the end of the line, and reports whether it is the head.
func (e *engine) lineUp(s *seeker) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.queue.line = append(s.queue.line, s)
	return len(s.queue.line) == 1
}

// isHead reports whether s is the first in line.
func (e *engine) isHead(s *seeker) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.queue.line[0] == s
}

// stepOut takes s out of the line and tells the next one.
func (e *engine) stepOut(s *seeker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := s.queue
	for i, other := range q.line {
		if other == s {
			q.line = append(q.line[:i], q.line[i+1:]...)
			break
		}
	}
	q.wake()
}

// wakeHead tells the first in line that the key may be had.
func (e *engine) wakeHead(q *queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.wake()
}

// wake is wakeHead with mu held.
func (q *queue) wake() {
	if len(q.line) == 0 {
		return
	}
	select {
	case q.line[0].woken <- struct{}{}:
	default:
	}
}
