package backendtest

import "sync"

// fencedCounter is what the work of a leader may write to: it counts for each name, and refuses a fence that is smaller
// than one it has seen. That is what stops a holder who was stopped between its last check and its write.
type fencedCounter struct {
	mu    sync.Mutex
	names map[string]*fencedCount
}

type fencedCount struct {
	fence    uint64 // the greatest seen
	accepted int    // writes with that fence
	refused  int    // writes with a smaller one, in all
}

func newFencedCounter() *fencedCounter {
	return &fencedCounter{names: make(map[string]*fencedCount)}
}

// add counts one for name unless the fence is old, and reports whether it did.
func (c *fencedCounter) add(name string, fence uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.names[name]
	if !ok {
		n = new(fencedCount)
		c.names[name] = n
	}
	switch {
	case fence < n.fence:
		n.refused++
		return false
	case fence > n.fence:
		n.fence, n.accepted = fence, 0
	}
	n.accepted++
	return true
}

// count returns what became of the writes to name.
func (c *fencedCounter) count(name string) fencedCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.names[name]; ok {
		return *n
	}
	return fencedCount{}
}
