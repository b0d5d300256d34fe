package metrics

import (
	"sync"
	"sync/atomic"
)

const (
	// DefaultNames is how many names have figures of their own by default.
	DefaultNames = 100
	// Other is the name of all names that have none.
	Other = "other"
)

// FirstNames returns a function that keeps the first n different names it is called with, and turns the others into
// [Other]. It answers the same for a name each time, and may be called concurrently.
func FirstNames(n int) func(name string) string {
	b := &firstNames{limit: n}
	return b.name
}

type firstNames struct {
	limit int
	full  atomic.Bool
	known sync.Map // name to nothing

	mu    sync.Mutex
	count int
}

func (b *firstNames) name(name string) string {
	if _, ok := b.known.Load(name); ok {
		return name
	}
	if b.full.Load() {
		return Other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.known.Load(name); ok {
		return name
	}
	if b.count >= b.limit {
		b.full.Store(true)
		return Other
	}
	b.count++
	b.known.Store(name, nil)
	return name
}
