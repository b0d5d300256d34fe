package leader

import (
	"math/rand/v2"
	"time"
)

const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
	// maxHint is the longest pause where the store notifies waiters: hints can be lost unnoticed.
	maxHint = 5 * time.Second
)

// backoff makes pauses between failed requests that grow and do not fall in step with those of other processes: each is
// random between the shortest and three times the last, up to the longest (decorrelated jitter, AWS Architecture Blog,
// "Exponential Backoff and Jitter", 2015).
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	most := min(maxPause, max(3*b.last, 2*minPause))
	b.last = minPause + rand.N(most-minPause)
	return b.last
}

// polling makes pauses between attempts at a lease that another holds: random between none and a bound that doubles
// (full jitter, same source), with a floor so that waiting costs next to nothing.
type polling struct{ bound time.Duration }

func (p *polling) next() time.Duration {
	p.bound = min(max(2*p.bound, minPause), maxPause)
	return max(minPause/5, rand.N(p.bound))
}
