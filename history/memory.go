package history

import (
	"context"
	"slices"
	"sync"
)

// DefaultLimit is how many records a [Memory] keeps.
const DefaultLimit = 1000

// Memory is a [Sink] that keeps the last records in memory, for tests and status pages. All methods may be called
// concurrently. Use [NewMemory]: the zero value is not ready.
type Memory struct {
	limit int

	mu      sync.Mutex
	records []*Record // oldest first
	byID    map[string]*Record
}

var _ Sink = (*Memory)(nil)

// NewMemory returns a sink that keeps the last limit records, [DefaultLimit] if that is not positive.
func NewMemory(limit int) *Memory {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Memory{limit: limit, byID: make(map[string]*Record)}
}

// Write implements [Sink]. It never fails.
func (m *Memory) Write(_ context.Context, records []Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		m.put(r)
	}
	return nil
}

func (m *Memory) put(r Record) {
	if known := m.byID[r.ID]; known != nil {
		*known = r
		return
	}
	if len(m.records) == m.limit {
		delete(m.byID, m.records[0].ID)
		m.records[0] = nil
		m.records = m.records[1:]
	}
	m.records = append(m.records, &r)
	m.byID[r.ID] = &r
}

// Recent returns the last records of a name, or of all if it is empty; at most limit of them, newest first.
func (m *Memory) Recent(name string, limit int) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Record
	for _, r := range slices.Backward(m.records) {
		if len(list) >= limit {
			break
		}
		if name == "" || r.Name == name {
			list = append(list, *r)
		}
	}
	return list
}
