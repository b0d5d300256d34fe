package history

import (
	"container/list"
	"context"
	"sync"
)

// DefaultLimit is how many records a [Memory] keeps.
const DefaultLimit = 1000

// Memory is a [Sink] that keeps the last records in memory, for tests and status pages. When it is full, skipped runs make
// room first while they are more than half of what it keeps. All methods may be called concurrently. Use [NewMemory]: the
// zero value is not ready.
type Memory struct {
	limit int

	mu      sync.Mutex
	records *list.List               // of *entry, in the order in which they were written last
	skips   *list.List               // of the elements of records that are Skipped, in that order too
	byID    map[string]*list.Element // of records
}

// entry is what Memory keeps of a run.
type entry struct {
	Record

	skip *list.Element // of skips; nil unless it is Skipped
}

var _ Sink = (*Memory)(nil)

// NewMemory returns a sink that keeps the last limit records, [DefaultLimit] if that is not positive.
func NewMemory(limit int) *Memory {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Memory{limit: limit, records: list.New(), skips: list.New(), byID: make(map[string]*list.Element)}
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
		m.drop(known)
	} else if m.records.Len() == m.limit {
		m.drop(m.dispensable())
	}
	fresh := &entry{Record: r}
	e := m.records.PushBack(fresh)
	if r.Status == Skipped {
		fresh.skip = m.skips.PushBack(e)
	}
	m.byID[r.ID] = e
}

// dispensable is the element that makes room for another.
func (m *Memory) dispensable() *list.Element {
	if m.skips.Len() > m.limit/2 {
		e, _ := m.skips.Front().Value.(*list.Element)
		return e
	}
	return m.records.Front()
}

func (m *Memory) drop(e *list.Element) {
	old, _ := m.records.Remove(e).(*entry)
	if old.skip != nil {
		m.skips.Remove(old.skip)
	}
	delete(m.byID, old.ID)
}

// Recent returns the last records of a name, or of all if it is empty; at most limit of them, newest first: those whose
// start or end was written last.
func (m *Memory) Recent(name string, limit int) []Record {
	return m.last(limit, func(r *Record) bool { return name == "" || r.Name == name })
}

// RecentOf is [Memory.Recent] for the runs of all names that have a status.
func (m *Memory) RecentOf(status Status, limit int) []Record {
	return m.last(limit, func(r *Record) bool { return r.Status == status })
}

func (m *Memory) last(limit int, wanted func(r *Record) bool) (found []Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.records.Back(); e != nil && len(found) < limit; e = e.Prev() {
		if kept, _ := e.Value.(*entry); wanted(&kept.Record) {
			found = append(found, kept.Record)
		}
	}
	return found
}
