package k8sleader

import (
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// rememberAll is how many objects a backend remembers before it forgets those of which nobody asked for a while.
	rememberAll = 10_000
	rememberFor = 10 * time.Minute

	// A record that the server's own times show to be older than this many leases and a minute may be taken at first
	// sight. The minute is for the clocks of several API servers.
	staleLeases = 2
	staleSlack  = time.Minute
)

// memory is what a backend has seen of Lease objects. Expiry is judged by how long ago the last sign of life was first
// seen, by this process's monotonic clock, so it has to last from one call to the next.
type memory struct {
	mu     sync.Mutex
	sights map[string]*sight // by the name of the object
	most   int               // how many sights there may be before old ones are looked for
}

// sight is what was seen of one object.
type sight struct {
	state *state // the newest, nil if the object is gone
	known bool   // state is what was heard last, and not in doubt
	rv    uint64
	at    time.Time // when that was heard, or put in doubt
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

// expired reports whether somebody had the Lease whose time is over.
func (v view) expired() bool { return v.state != nil && v.tenure != free && v.remaining <= 0 }

// taken reports whether somebody has the Lease.
func (v view) taken() bool { return v.state != nil && v.tenure != free && v.remaining > 0 }

// holder is who has the Lease, the zero Holder if nobody has.
func (v view) holder() backend.Holder {
	if !v.taken() {
		return backend.Holder{}
	}
	return v.state.holder(v.remaining)
}

// note takes a state that the server answered.
func (m *memory) note(s *state, a *answer) {
	now := time.Now()
	stale := a.date.Sub(s.written) > staleLeases*s.ttl+staleSlack && !s.written.IsZero() && !a.date.IsZero()
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(s.object.Name, now)
	// A newer one may have come meanwhile. A store that was restored from a backup counts from there again, so a lower
	// version alone is not older.
	if s.rv < e.rv && e.at.After(a.sent) {
		return
	}
	e.see(s, now)
	if stale {
		e.first = now.Add(-s.ttl)
	}
}

// newest is s, or what is known to have come after it.
func (m *memory) newest(s *state) view {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.sights[s.object.Name]
	if !ok || !e.known || e.rv < s.rv {
		return view{state: s, remaining: s.ttl}
	}
	return e.view(now)
}

// told takes a state that a watch delivered, which may be late.
func (m *memory) told(s *state) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(s.object.Name, now); s.rv > e.rv {
		e.see(s, now)
	}
}

// gone takes the answer that there is no such object.
func (m *memory) gone(name string, a *answer) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(name, now); !e.at.After(a.sent) {
		e.state, e.known, e.life, e.at = nil, true, "", now
	}
}

// toldGone takes the news of a watch that the object was deleted with the version rv.
func (m *memory) toldGone(name string, rv uint64) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(name, now); rv > e.rv {
		e.state, e.known, e.life, e.at, e.rv = nil, true, "", now, rv
	}
}

// recall returns the newest state. known is false if nothing is known of the object.
func (m *memory) recall(name string) (v view, known bool) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.sights[name]
	if !ok || !e.known {
		return view{}, false
	}
	e.used = now
	return e.view(now), true
}

// doubt forgets the state of an object after a write whose outcome is unknown, and keeps since when it was seen.
func (m *memory) doubt(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.sights[name]; ok {
		e.state, e.known, e.at = nil, false, time.Now()
	}
}

// entry returns the sight of an object. m.mu is held.
func (m *memory) entry(name string, now time.Time) *sight {
	e, ok := m.sights[name]
	if !ok {
		if len(m.sights) >= m.most {
			m.forget(now)
		}
		e = &sight{}
		m.sights[name] = e
	}
	e.used = now
	return e
}

// forget makes room, and looks for it the next time when there are twice as many. To forget one that is in use could let
// a dead holder's lease never end. m.mu is held.
func (m *memory) forget(now time.Time) {
	for name, e := range m.sights {
		if now.Sub(e.used) > rememberFor {
			delete(m.sights, name)
		}
	}
	m.most = max(rememberAll, 2*len(m.sights))
}

// see takes a newer state.
func (e *sight) see(s *state, now time.Time) {
	if life := s.life(); life != e.life {
		e.life, e.first = life, now
	}
	e.state, e.known, e.rv, e.at = s, true, s.rv, now
}

func (e *sight) view(now time.Time) view {
	if e.state == nil {
		return view{}
	}
	return view{state: e.state, remaining: e.state.ttl - now.Sub(e.first)}
}
