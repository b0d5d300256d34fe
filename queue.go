package leader

import (
	"context"
	"slices"
	"time"
)

// maxIdleQueues is how many queues an elector may have before it drops those without users.
const maxIdleQueues = 64

// queue is what an elector knows of one key while somebody here wants it or holds it. The engine's mu guards it.
//
// Callers that wait stand in line, and only the first of them talks to the store. At most one request for the key is
// under way, given up ones included.
type queue struct {
	key    string
	users  int           // callers, holders and requests that refer to it
	holds  []*hold       // leases that this elector acquired and has not released
	asking bool          // a request for the key is under way
	asked  instant       // since when
	newest *hold         // the last lease that a request brought
	idle   chan struct{} // closed when no request is under way any more; nil while nobody waits for that
	line   []*seeker
	last   *verdict // of the last request; nil if it brought the lease, or no answer
}

// enter returns the queue of key, for a caller that leaves it later. If nobody here is after the key, the caller has the
// claim as well.
func (e *engine) enter(key string, now instant) (q *queue, claimed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q = e.queues[key]
	if q == nil {
		q = &queue{key: key}
		e.queues[key] = q
	}
	q.users++
	if len(q.holds) >= e.capacity() || q.asking || len(q.line) > 0 {
		return q, false
	}
	q.ask(now)
	return q, true
}

// ask begins a request; the engine's mu is held.
func (q *queue) ask(now instant) {
	q.asking, q.asked = true, now
	q.users++
}

// leave gives back what enter returned.
func (e *engine) leave(q *queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(q)
}

// drop counts one user less; mu is held. A few queues without users are kept, for the next call of the same name.
func (e *engine) drop(q *queue) {
	q.users--
	if q.users > 0 {
		return
	}
	if len(e.queues) > maxIdleQueues {
		delete(e.queues, q.key)
		return
	}
	q.newest, q.last, q.line = nil, nil, nil
}

// claim makes the caller the one that has a request for the key under way. It waits for another's to end, and reports
// false if ctx ends or the deadline comes first. It returns the lease that this elector has and still trusts, if any,
// instead of the claim.
func (e *engine) claim(ctx context.Context, q *queue, deadline time.Time) (held *hold, ok bool) {
	held, idle := e.tryClaim(q)
	if held != nil || idle == nil {
		return held, held == nil
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	for idle != nil {
		select {
		case <-idle:
		case <-t.C:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
		if held, idle = e.tryClaim(q); held != nil {
			return held, false
		}
	}
	return nil, true
}

// tryClaim is claim without waiting: a channel is closed when it is worth another try.
func (e *engine) tryClaim(q *queue) (held *hold, idle <-chan struct{}) {
	for {
		if held := e.holder(q); held != nil {
			return held, nil
		}
		e.mu.Lock()
		if len(q.holds) < e.capacity() {
			idle = q.claim(e.clock.now())
			e.mu.Unlock()
			return nil, idle
		}
		e.mu.Unlock()
	}
}

// capacity is how many leases of a key this elector may have at a time.
func (e *engine) capacity() int { return max(1, e.config.slots) }

// claim returns nil if the caller now has the request, else a channel that is closed when the request ends; the
// engine's mu is held.
func (q *queue) claim(now instant) <-chan struct{} {
	if !q.asking {
		q.ask(now)
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	return q.idle
}

// unclaim ends a request that did not bring the lease.
func (e *engine) unclaim(q *queue, v *verdict) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.answered(v)
	e.drop(q)
}

// occupy ends a request that brought the lease h, and the use of the queue by the caller that made it: the holder is its
// user from now on, until it vacates.
func (e *engine) occupy(q *queue, h *hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.answered(nil)
	q.holds, q.newest = append(q.holds, h), h
	e.drop(q)
}

// answered notes the end of a request; the engine's mu is held.
func (q *queue) answered(v *verdict) {
	q.asking = false
	q.last = v
	if q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

// vacate ends the holding that occupy began; once is enough.
func (e *engine) vacate(h *hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.vacated {
		return
	}
	h.vacated = true
	q := h.queue
	q.remove(h)
	q.wake()
	e.drop(q)
}

// holder returns a lease of the key if this elector has all that there are, and trusts them. Those that are over make room
// for a request, although they have not been released yet.
func (e *engine) holder(q *queue) *hold {
	e.mu.Lock()
	full := len(q.holds) >= e.capacity()
	var newest *hold
	var others []*hold
	if full {
		last := len(q.holds) - 1
		newest, others = q.holds[last], slices.Clone(q.holds[:last])
	}
	e.mu.Unlock()
	if !full {
		return nil
	}
	for _, h := range append(others, newest) {
		if h.over() {
			e.displace(q, h)
			newest = nil
		}
	}
	return newest
}

func (e *engine) displace(q *queue, h *hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.remove(h)
}

// remove takes h out of the holds; the engine's mu is held.
func (q *queue) remove(h *hold) {
	if i := slices.Index(q.holds, h); i >= 0 {
		q.holds = slices.Delete(q.holds, i, i+1)
	}
}

// lastVerdict is what the last request for the key brought, for those who stand in line, and for how long the present
// one has been under way.
func (e *engine) lastVerdict(q *queue) (v *verdict, granted *hold, asking time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.asking {
		asking = q.asked.until(e.clock.now())
	}
	return q.last, q.newest, asking
}

// lineUp puts s at the end of the line.
func (e *engine) lineUp(s *seeker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.queue.line = append(s.queue.line, s)
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
	i := slices.Index(s.queue.line, s)
	s.queue.line = slices.Delete(s.queue.line, i, i+1)
	s.queue.wake()
}

// wakeHead tells the first in line that the key may be had.
func (e *engine) wakeHead(q *queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.wake()
}

// wake is wakeHead with the engine's mu held.
func (q *queue) wake() {
	if len(q.line) == 0 {
		return
	}
	select {
	case q.line[0].woken <- struct{}{}:
	default:
	}
}
