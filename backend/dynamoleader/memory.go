package dynamoleader

import (
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// rememberAll is how many items a backend remembers before it forgets those of which nobody asked for a while.
	rememberAll = 10_000
	rememberFor = 10 * time.Minute

	// A lease that was renewed longer ago than this many of its times and a minute may be taken at first sight. The minute
	// is for the clocks of the hosts behind one endpoint.
	staleLeases = 2
	staleSlack  = time.Minute
)

// memory is what a backend has seen of the items of leases. Expiry is judged by how long ago the last sign of life was
// first seen, by this process's monotonic clock, so it has to last from one call to the next.
type memory struct {
	mu     sync.Mutex
	sights map[string]*sight // by key
	most   int               // how many sights there may be before old ones are looked for
}

// sight is what was seen of one item.
type sight struct {
	state *state    // the newest, nil if there is no item
	at    time.Time // when that was heard
	life  string
	first time.Time // when the life arrived for the first time
	used  time.Time
}

func newMemory() *memory { return &memory{sights: map[string]*sight{}, most: rememberAll} }

// view is a state and how long its lease may still last.
type view struct {
	*state

	remaining time.Duration
}

// expired reports whether somebody had the key whose time is over.
func (v view) expired() bool { return v.state != nil && !v.free() && v.remaining <= 0 }

// taken reports whether somebody has the key.
func (v view) taken() bool { return v.state != nil && !v.free() && v.remaining > 0 }

// holder is who has the key, the zero Holder if nobody has.
func (v view) holder() backend.Holder {
	if !v.taken() {
		return backend.Holder{}
	}
	return v.state.holder(v.remaining)
}

// note takes a state that the service answered, and returns the newest.
func (m *memory) note(s *state, a *answer) view {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(s.key, now)
	// A newer one may have come meanwhile.
	if e.at.After(a.sent) && e.state != nil && e.state.fence > s.fence {
		return e.view(now)
	}
	e.see(s, now)
	if isStale(s, a) {
		e.first = now.Add(-s.ttl)
	}
	return e.view(now)
}

// isStale reports whether a lease is long over by its own times: by the service's clock, and by this machine's too, lest a
// Date that is wrong robs somebody.
func isStale(s *state, a *answer) bool {
	if s.free() || s.renewed.IsZero() || a.date.IsZero() {
		return false
	}
	over := s.renewed.Add(staleLeases*s.ttl + staleSlack)
	return a.date.After(over) && time.Now().After(over)
}

// gone takes the answer that there is no item, or that nobody has its key.
func (m *memory) gone(key string, a *answer) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(key, now); !e.at.After(a.sent) {
		e.state, e.life, e.at = nil, "", now
	}
}

// recall returns the newest state that was heard of, if any. What is written on its account is conditioned on it.
func (m *memory) recall(key string) view {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.sights[key]
	if !ok {
		return view{}
	}
	e.used = now
	return e.view(now)
}

// entry returns the sight of an item. m.mu is held.
func (m *memory) entry(key string, now time.Time) *sight {
	e, ok := m.sights[key]
	if !ok {
		if len(m.sights) >= m.most {
			m.forget(now)
		}
		e = &sight{}
		m.sights[key] = e
	}
	e.used = now
	return e
}

// forget makes room, and looks for it the next time when there are twice as many. To forget one that is in use could let
// a dead holder's lease never end. m.mu is held.
func (m *memory) forget(now time.Time) {
	for key, e := range m.sights {
		if now.Sub(e.used) > rememberFor {
			delete(m.sights, key)
		}
	}
	m.most = max(rememberAll, 2*len(m.sights))
}

// see takes a newer state.
func (e *sight) see(s *state, now time.Time) {
	if life := s.life(); life != e.life {
		e.life, e.first = life, now
	}
	e.state, e.at = s, now
}

func (e *sight) view(now time.Time) view {
	if e.state == nil {
		return view{}
	}
	return view{state: e.state, remaining: e.state.ttl - now.Sub(e.first)}
}
