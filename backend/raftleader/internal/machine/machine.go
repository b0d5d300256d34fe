package machine

import (
	"hash/maphash"
	"math"
	"sync"
)

const (
	// remember is for how long after its end a lease is known, with its spent token: an hour.
	remember = int64(3600) * 1e6
	// rememberMost is how many such leases are known. Those that ended first are forgotten first.
	rememberMost = 1 << 16
)

// Machine is the replicated state. Its methods may be called concurrently. Use [New]: the zero value is not ready.
type Machine struct {
	mu      sync.Mutex
	now     int64
	applied uint64 // the index of the last command
	epoch   uint64
	cluster string
	leases  map[string]*lease
	sets    map[string]map[string]*value // the records, by set and by key
	ends    queue                        // of the leases and records that will end
	drops   queue                        // of the leases that have ended: when they are forgotten
	absent  absent
}

// New returns the state before the first command.
func New() *Machine {
	return &Machine{
		leases: map[string]*lease{},
		sets:   map[string]map[string]*value{},
		absent: absent{seed: maphash.MakeSeed()},
	}
}

// Apply executes the command with the given index of the log and answers it. An index that was applied before, as in a
// log that is read again from behind a snapshot, must not be applied again.
func (m *Machine) Apply(index uint64, c Command) Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = index
	m.advance(c.At)
	v := m.judge(&c, m.now)
	m.perform(&c, &v)
	return v.Reply
}

// Foresee returns what c, proposed at c.At, would be answered if it would change nothing: held, lost, in conflict, or
// with nothing left to do. It reports false if c has to be proposed, also because something has ended by then that the
// log does not know to have ended.
func (m *Machine) Foresee(c Command) (Reply, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := max(m.now, c.At)
	v := m.judge(&c, at)
	if v.step != rest || m.due(at) {
		return Reply{}, false
	}
	return v.Reply, true
}

// Now returns the time of the log.
func (m *Machine) Now() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Applied returns the index of the last command that was applied, or that a restored snapshot includes.
func (m *Machine) Applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// Epoch returns what fences are counted from; 0 before [Found].
func (m *Machine) Epoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// Cluster returns the identity of the cluster; "" before [Found].
func (m *Machine) Cluster() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cluster
}

// Timed reports whether something will end, or has ended without the log knowing it yet. While it does, the leader keeps
// the time of the log moving.
func (m *Machine) Timed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ends.head() != nil
}

// Due reports whether something has ended by the given time that the log does not know to have ended. Who answers a
// reader by that time then commits a [Tick] before.
func (m *Machine) Due(at int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.due(at)
}

// due is [Machine.Due]. m.mu is held. That a free lease is about to be dropped is reported likewise, which costs a tick.
func (m *Machine) due(at int64) bool { return m.ends.next(at) != nil || m.drops.next(at) != nil }

// advance moves the time and lets end what has an end by then. m.mu is held.
func (m *Machine) advance(at int64) {
	m.now = max(m.now, at)
	for e := m.ends.next(m.now); e != nil; e = m.ends.next(m.now) {
		if e.lease == nil {
			m.unset(e.value)
			continue
		}
		m.schedule(e.lease)
		e.lease.wake()
	}
	for e := m.drops.next(m.now); e != nil; e = m.drops.next(m.now) {
		m.drop(e.lease)
	}
}

// schedule notes what time will do next to a lease, whose end is new or has come. m.mu is held.
func (m *Machine) schedule(l *lease) {
	if !l.free(m.now) {
		m.ends.put(&l.event, l.end)
		return
	}
	m.drops.put(&l.event, plus(l.end, remember))
	if m.drops.Len() > rememberMost {
		m.drop(m.drops.head().lease)
	}
}

// drop forgets a lease. m.mu is held.
func (m *Machine) drop(l *lease) {
	l.event.leave()
	l.wake() // a later lease of the same key would not know who waits
	delete(m.leases, l.key)
}

// plus adds times without an overflow.
func plus(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
