package hazelcastleader

import "sync"

// remembered is of how many keys the entry is remembered.
const remembered = 1024

// memory has the entries of keys that this backend released last. Nothing rests on them: whoever uses one has it compared
// with what the store has. One is used only where the last one of its key would have been right, so that a key for which
// several processes take turns is read as any other.
type memory struct {
	mu    sync.Mutex
	memos map[string]memo
}

type memo struct {
	entry // the zero one while this backend has the key

	sure bool // the last one was right
}

// put remembers an entry, in the place of any other one if there are too many.
func (m *memory) put(key string, e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memos == nil {
		m.memos = make(map[string]memo)
	}
	old, ok := m.memos[key]
	for other := range m.memos {
		if ok || len(m.memos) < remembered {
			break
		}
		delete(m.memos, other)
	}
	m.memos[key] = memo{e, old.sure}
}

// recall returns an entry that is worth a try.
func (m *memory) recall(key string) (e entry, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.memos[key]
	return found.entry, found.sure && !found.absent()
}

// forget drops the entry of a key that was acquired, but not how good it was.
func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.memos[key]; ok {
		m.memos[key] = memo{sure: old.sure}
	}
}

// judge compares what is remembered with what the store has.
func (m *memory) judge(key string, found entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.memos[key]; ok && !old.absent() {
		m.memos[key] = memo{old.entry, old.raw == found.raw}
	}
}
