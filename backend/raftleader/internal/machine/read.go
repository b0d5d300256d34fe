package machine

import "strings"

// Holder returns who has a key by the given time.
func (m *Machine) Holder(key string, at int64) Holder {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holder(key, max(m.now, at))
}

// holder is [Machine.Holder]. m.mu is held.
func (m *Machine) holder(key string, at int64) Holder {
	l := m.leases[key]
	if l == nil || l.free(at) {
		return Holder{}
	}
	return l.holder(at)
}

// List returns the keys that begin with prefix and are held by the given time, in no particular order; with all set also
// those that are kept, and those that expired within the last hour, of which nothing remains.
func (m *Machine) List(prefix string, all bool, at int64) []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	at = max(m.now, at)
	var list []Entry
	for key, l := range m.leases {
		held := !l.free(at) && l.token != ""
		past := !l.free(at) || l.token != "" // kept or expired, if it is not held
		if strings.HasPrefix(key, prefix) && (held || all && past) {
			list = append(list, Entry{key, l.holder(at)})
		}
	}
	return list
}

// Records returns the records of a set by the given time, in no particular order. The prefix is all of their keys up to
// and with the slash.
func (m *Machine) Records(prefix string, at int64) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	at = max(m.now, at)
	var list []Record
	for _, v := range m.sets[prefix] {
		if v.expired(at) {
			continue
		}
		r := Record{Key: v.key, Version: v.version, Value: v.data}
		if v.end != 0 {
			r.TTL = v.end - at
		}
		list = append(list, r)
	}
	return list
}
