package machine

import "hash/maphash"

// notice tells those who wait that something has happened. The zero value is ready.
type notice struct{ c chan struct{} }

// await returns a channel that is closed when the notice is given next.
func (n *notice) await() <-chan struct{} {
	if n.c == nil {
		n.c = make(chan struct{})
	}
	return n.c
}

// give tells everybody who waits.
func (n *notice) give() {
	if n.c != nil {
		close(n.c)
		n.c = nil
	}
}

// absent has the notices of keys of which nothing is known. As many such keys as there are share a fixed number of
// notices, so that waiting for a key that never comes costs no memory once the wait is over.
type absent struct {
	seed    maphash.Seed
	notices [256]notice
}

func (a *absent) of(key string) *notice {
	return &a.notices[maphash.String(a.seed, key)%uint64(len(a.notices))]
}

func (a *absent) wake(key string) { a.of(key).give() }

// Changed returns who has a key by the time of the log, the index of the last command that was applied, and a channel
// that is closed at the next change of the holder, of which the end of a lease by the time of the log is one, or after a
// restored snapshot, and sometimes without a reason.
func (m *Machine) Changed(key string) (now Holder, applied uint64, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.absent.of(key)
	if l := m.leases[key]; l != nil {
		n = &l.changed
	}
	return m.holder(key, m.now), m.applied, n.await()
}

// wakeAll wakes everybody who waits. m.mu is held.
func (m *Machine) wakeAll() {
	for i := range m.absent.notices {
		m.absent.notices[i].give()
	}
	for _, l := range m.leases {
		l.wake()
	}
}
