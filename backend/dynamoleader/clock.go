package dynamoleader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

// clockFor is how long the service's time is trusted to go on as this machine's clocks do.
const clockFor = time.Minute

var errNoDate = backend.WithKind(errors.New("the service's answers have no Date"), backend.Misconfigured)

// answer is when a request was sent and answered, and the service's time in whole seconds, zero if it told none.
type answer struct {
	sent, at time.Time
	date     time.Time
}

func ask() *answer { return &answer{sent: time.Now()} }

// clock is the last that was heard of the service's time.
type clock struct {
	mu   sync.Mutex
	last answer
}

// note takes the time of an answer.
func (c *clock) note(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.date.IsZero() && a.at.After(c.last.at) {
		c.last = *a
	}
}

// bounds returns instants between which the service's time is; ok is false if it was not heard of late.
func (c *clock) bounds() (least, most time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.date.IsZero() {
		return time.Time{}, time.Time{}, false
	}
	// A Date is cut to the second, and was written between the request and the answer.
	least = c.last.date.Add(elapsed(c.last.at))
	most = c.last.date.Add(time.Second + elapsed(c.last.sent))
	return least, most, elapsed(c.last.at) <= clockFor
}

// elapsed is the time since an instant: by the monotonic clock, which stands still while the machine sleeps, or by the
// other, which may be set back.
func elapsed(since time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// serverTime returns instants between which the service's time is. If that was not heard of late, it reads an item.
func (b *Backend) serverTime(ctx context.Context, p place) (least, most time.Time, err error) {
	if least, most, ok := b.clock.bounds(); ok {
		return least, most, nil
	}
	if _, _, err := b.read(ctx, p); err != nil {
		return time.Time{}, time.Time{}, err
	}
	least, most, ok := b.clock.bounds()
	if !ok {
		return time.Time{}, time.Time{}, errNoDate
	}
	return least, most, nil
}
