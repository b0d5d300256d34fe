package sqlleader

import (
	"sync"
	"time"
)

// observations remember since when this process has seen rows of another clock unchanged. The zero value is ready.
type observations struct {
	mu    sync.Mutex
	byKey map[string]observation
}

type observation struct {
	identity identity
	first    time.Time
	noted    bool
}

// since returns how many µs ago the row of key was first seen as it is now; now is that instant for a new state.
func (o *observations) since(key string, now identity) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen, ok := o.byKey[key]
	if !ok || seen.identity != now {
		if o.byKey == nil {
			o.byKey = make(map[string]observation)
		}
		o.byKey[key] = observation{identity: now, first: time.Now()}
		return 0
	}
	return time.Since(seen.first).Microseconds()
}

// note reports whether the observation of key is yet to be noted in the row, and remembers that it was asked.
func (o *observations) note(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen, ok := o.byKey[key]
	if !ok || seen.noted {
		return false
	}
	seen.noted = true
	o.byKey[key] = seen
	return true
}

// forget drops what was seen of key.
func (o *observations) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byKey, key)
}
