package machine

import (
	"cmp"
	"slices"
)

// State is an immutable copy of what a [Machine] has. The zero State is that before the first command.
type State struct {
	head    head
	leases  []term // by key
	records []item // by key
}

// head is what is not about a key.
type head struct {
	now     int64
	applied uint64
	epoch   uint64
	cluster string
}

// Snapshot returns the state. The machine is locked only while it is copied.
func (m *Machine) Snapshot() State {
	s := m.copied()
	slices.SortFunc(s.leases, func(a, b term) int { return cmp.Compare(a.key, b.key) })
	slices.SortFunc(s.records, func(a, b item) int { return cmp.Compare(a.key, b.key) })
	return s
}

func (m *Machine) copied() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{
		head:   head{m.now, m.applied, m.epoch, m.cluster},
		leases: make([]term, 0, len(m.leases)),
	}
	for _, l := range m.leases {
		s.leases = append(s.leases, l.term)
	}
	for _, set := range m.sets {
		for _, v := range set {
			s.records = append(s.records, v.item)
		}
	}
	return s
}

// Restore replaces everything by s, and wakes everybody who waits.
func (m *Machine) Restore(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wakeAll()
	m.now, m.applied, m.epoch, m.cluster = s.head.now, s.head.applied, s.head.epoch, s.head.cluster
	m.ends, m.drops = queue{}, queue{}
	m.leases = make(map[string]*lease, len(s.leases))
	m.sets = map[string]map[string]*value{}
	for _, t := range s.leases {
		m.schedule(m.newLease(t))
	}
	for _, i := range s.records {
		m.add(i)
	}
	m.advance(m.now)
}
