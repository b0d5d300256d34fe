package consulleader

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// seenDelayed is the Seen of a key that nobody has and nobody gets, because of a lock-delay.
	seenDelayed = "delayed"

	// maxDelays is how many keys are remembered before it is looked which of them are over.
	maxDelays = 256
)

// delays remembers since when keys have been refused because of a lock-delay, which tells when it ends.
type delays struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func newDelays() *delays { return &delays{since: map[string]time.Time{}} }

// holder describes a key under a lock-delay. What remains is at most the lock-delay that this backend would have asked
// for, since it began before the first refusal.
func (d *delays) holder(key string, delay time.Duration) backend.Holder {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	first, ok := d.since[key]
	if !ok || now.Sub(first) > maxDelay {
		if len(d.since) >= maxDelays {
			maps.DeleteFunc(d.since, func(_ string, at time.Time) bool { return now.Sub(at) > maxDelay })
		}
		first = now
		d.since[key] = first
	}
	return backend.Holder{Remaining: max(0, first.Add(delay).Sub(now)), Seen: seenDelayed}
}

// over notes that a key was locked.
func (d *delays) over(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.since) > 0 {
		delete(d.since, key)
	}
}

// isDelay reports whether an attempt was refused because of a lock-delay.
func isDelay(err error) bool {
	held, ok := errors.AsType[*backend.HeldError](err)
	return ok && held.Holder.Seen == seenDelayed
}
