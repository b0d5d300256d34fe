package machine

// RememberMost is how many leases that have ended are known.
const RememberMost = rememberMost

// Size is how many leases and records m has.
func (m *Machine) Size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.leases)
	for _, set := range m.sets {
		n += len(set)
	}
	return n
}

// Queued is how many events m waits for.
func (m *Machine) Queued() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ends.Len() + m.drops.Len()
}
