package leader

import (
	"sync"
	"sync/atomic"
	"time"
)

// stepped is the difference between wall and monotonic time that makes the clock look closer.
const stepped = 50 * time.Millisecond

// instant is a local point in time: what has passed since the elector was made, by the monotonic clock and including
// the time that the machine slept, for which that clock stands still.
type instant time.Duration

func (i instant) add(d time.Duration) instant   { return i + instant(d) }
func (i instant) until(j instant) time.Duration { return time.Duration(j - i) }
func (i instant) reached(deadline instant) bool { return i >= deadline }
func (i instant) before(other instant) bool     { return i < other }
func earliest(a instant, others ...instant) instant {
	for _, b := range others {
		a = min(a, b)
	}
	return a
}

// never is later than every instant that is reached.
const never = instant(1<<63 - 1)

// clock tells instants. It keeps a baseline of wall minus monotonic time. Only where one reading differs from it does
// the clock ask whether the machine slept, which then counts as time passed, or whether the wall clock was set, which
// changes nothing.
type clock struct {
	base     time.Time
	baseline atomic.Int64 // wall minus monotonic since base, in nanoseconds
	slept    atomic.Int64 // nanoseconds

	mu        sync.Mutex
	suspended func() (total time.Duration, ok bool) // how long the machine has slept in all; not ok if it cannot tell
	seen      time.Duration                         // the last total
}

func newClock() *clock {
	c := &clock{base: time.Now(), suspended: suspendedTime}
	c.seen, _ = c.suspended()
	return c
}

func (c *clock) now() instant { return c.at(time.Now()) }

// at is the instant of a reading of time.Now.
func (c *clock) at(t time.Time) instant {
	mono := t.Sub(c.base)
	if drift := c.drift(t); drift > stepped || drift < -stepped {
		c.look()
	}
	return instant(mono + time.Duration(c.slept.Load()))
}

// time is the reading of time.Now that belongs to an instant, sleep apart.
func (c *clock) time(i instant) time.Time {
	return c.base.Add(time.Duration(i) - time.Duration(c.slept.Load()))
}

// look finds out why wall and monotonic time have moved apart.
func (c *clock) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	drift := c.drift(time.Now())
	if drift <= stepped && drift >= -stepped {
		return // somebody else was first
	}
	total, ok := c.suspended()
	switch {
	case ok && total > c.seen:
		c.slept.Add(int64(total - c.seen))
		c.seen = total
	case !ok && drift > 0:
		// Nothing tells sleep from a clock set ahead: taking it for sleep costs a renewal, not a second holder.
		c.slept.Add(int64(drift))
	}
	c.baseline.Add(int64(drift))
}

// drift is how far wall and monotonic time have moved apart since the baseline.
func (c *clock) drift(t time.Time) time.Duration {
	wall := time.Duration(t.UnixNano() - c.base.UnixNano())
	return wall - t.Sub(c.base) - time.Duration(c.baseline.Load())
}
