package machine

import (
	"strconv"
)

// term is what is known of the lease of a key: the current one, or the last.
type term struct {
	key      string
	token    string // of the holder, also of one whose time is up; "" after its release
	spent    string // the last token that was released or abandoned, or whose lease was broken
	owner    string
	fence    uint64
	since    int64
	end      int64 // the key is free from then on
	index    uint64
	metadata map[string]string
}

// free reports whether nobody has the key.
func (t *term) free(at int64) bool { return at >= t.end }

// holder returns who has the key, or had it.
func (t *term) holder(at int64) Holder {
	return Holder{
		Owner:     t.owner,
		Fence:     t.fence,
		Since:     t.since,
		Remaining: max(0, t.end-at),
		Kept:      t.token == "",
		Index:     t.index,
		Metadata:  t.metadata,
	}
}

// lease is a term in a machine.
type lease struct {
	term
	event   event
	changed notice
}

// wake tells those who wait for a change.
func (l *lease) wake() { l.changed.give() }

// newLease adds a lease of a key that has none. m.mu is held.
func (m *Machine) newLease(t term) *lease {
	l := &lease{term: t}
	l.event.lease = l
	m.leases[t.key] = l
	m.absent.wake(t.key)
	return l
}

// slots calls each with the leases of the slots of a group, nil where there is none, until it returns false. m.mu is
// held.
func (m *Machine) slots(group string, n int, each func(slot int, l *lease) bool) {
	key := append(make([]byte, 0, 64), group...)
	key = append(key, '#')
	for slot := range n {
		if !each(slot, m.leases[string(strconv.AppendInt(key, int64(slot), 10))]) {
			return
		}
	}
}

// slotKey is the key of a slot, as backend.SlotKey builds it.
func slotKey(group string, slot int) string { return group + "#" + strconv.Itoa(slot) }

// grant begins a term of v's key for c. m.mu is held.
func (m *Machine) grant(c *Command, v *verdict) {
	l := v.lease
	if l == nil {
		l = m.newLease(term{key: v.key})
	}
	l.token, l.owner, l.fence = c.Token, c.Owner, m.epoch+m.applied
	l.since, l.end, l.metadata = c.Wall, plus(m.now, c.TTL), c.Metadata
	m.change(l)
	v.Fence = l.fence
}

// end ends the term of v's lease, or begins with the memory of a spent token. m.mu is held.
func (m *Machine) end(v *verdict) {
	l := v.lease
	if l == nil {
		l = m.newLease(term{key: v.key})
	}
	l.token, l.spent, l.end = "", v.spend, v.until
	m.change(l)
}

// change is called after each change of the holder of a key. m.mu is held.
func (m *Machine) change(l *lease) {
	l.index = m.applied
	m.schedule(l)
	l.wake()
}
