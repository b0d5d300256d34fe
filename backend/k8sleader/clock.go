package k8sleader

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
)

// clockFor is how long the server's time is trusted to go on as this process's monotonic clock does.
const clockFor = time.Minute

var errNoDate = backend.WithKind(errors.New("the server's answers have no Date"), backend.Misconfigured)

// clock is the last that was heard of the server's time.
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

// bounds returns instants between which the server's time is; ok is false if it was not heard of late.
func (c *clock) bounds() (least, most time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.date.IsZero() || time.Since(c.last.at) > clockFor {
		return time.Time{}, time.Time{}, false
	}
	// A Date is cut to the second, and was written between the request and the answer.
	least = c.last.date.Add(time.Since(c.last.at))
	most = c.last.date.Add(time.Second + time.Since(c.last.sent))
	return least, most, true
}

// serverTime returns instants between which the server's time is. If that is not known it asks for a key's object.
func (b *Backend) serverTime(ctx context.Context, key string) (least, most time.Time, err error) {
	if least, most, ok := b.clock.bounds(); ok {
		return least, most, nil
	}
	asked, a := ask(ctx)
	_, err = b.api.leases.Get(asked, recordName(key), metav1.GetOptions{})
	if err != nil && !isMissing(err) {
		return time.Time{}, time.Time{}, b.failed(asked, "get", err)
	}
	b.clock.note(a)
	least, most, ok := b.clock.bounds()
	if !ok {
		return time.Time{}, time.Time{}, errNoDate
	}
	return least, most, nil
}
