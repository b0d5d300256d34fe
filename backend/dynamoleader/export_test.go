package dynamoleader

import "time"

// LeasePlace is the primary key of a lease.
func LeasePlace(key string) (name, part string) {
	p := leasePlace(key)
	return p.name, p.part
}

// RecordPlace is the primary key of a record.
func RecordPlace(key string) (name, part string) {
	p := recordPlace(key)
	return p.name, p.part
}

// Idle makes b as if it had done nothing for a time.
func Idle(b *Backend, d time.Duration) {
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	for _, e := range b.memory.sights {
		e.first, e.at, e.used = e.first.Add(-d), e.at.Add(-d), e.used.Add(-d)
	}
	b.clock.mu.Lock()
	defer b.clock.mu.Unlock()
	last := &b.clock.last
	last.sent, last.at, last.date = last.sent.Add(-d), last.at.Add(-d), last.date.Add(-d)
}
