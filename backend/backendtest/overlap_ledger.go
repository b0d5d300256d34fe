package backendtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
)

// glance is the time between two checks of a lease, and so how exactly a gap is known.
const glance = time.Millisecond

// moment is a point in time, in nanoseconds, which processes of one machine can compare.
type moment int64

func (m moment) since(earlier moment) time.Duration { return time.Duration(m - earlier) }

// A holding is the time of which is known that a lease was trusted. Trust has no holes, so the lease was trusted
// throughout. Both ends are read before the check: after it, the process may have been stopped for any time.
type holding struct {
	Name  string
	Fence uint64
	First moment // before the first check that found it trusted; 0 if none has
	Last  moment // before the last one
	Lost  string // why it is over; empty while it is not
}

// ledger checks leases all the time and keeps their holdings. It may be used concurrently.
type ledger struct {
	mu      sync.Mutex
	entries []*entry
	checked moment        // when the last round of checks began
	stalled time.Duration // the longest time between two rounds: how long the machine held this process up
}

type entry struct {
	lease *leader.Lease
	holding
}

// newLedger returns a ledger that checks until the test ends.
func newLedger(t testing.TB) *ledger {
	t.Helper()
	l := &ledger{checked: thisMoment()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return l
}

func (l *ledger) run(ctx context.Context) {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.check()
		case <-ctx.Done():
			return
		}
	}
}

// check looks at every lease, also at those that were lost: they must not be trusted again.
func (l *ledger) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := thisMoment()
	l.stalled = max(l.stalled, now.since(l.checked))
	l.checked = now
	for _, e := range l.entries {
		e.check()
	}
}

// add takes in a lease that was just acquired.
func (l *ledger) add(lease *leader.Lease) {
	info := lease.Info()
	e := &entry{lease: lease, holding: holding{Name: info.Name, Fence: info.Fence}}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.check()
	l.entries = append(l.entries, e)
}

// holdings returns what is known so far.
func (l *ledger) holdings() []holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]holding, len(l.entries))
	for i, e := range l.entries {
		all[i] = e.holding
	}
	return all
}

// longestStall is how long this process was held up at most.
func (l *ledger) longestStall() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled
}

// check makes one check. A lease counts as trusted if any way of asking says so.
func (e *entry) check() {
	now := thisMoment()
	err := e.lease.Err()
	if err != nil && e.lease.Context().Err() != nil {
		if e.Lost == "" {
			e.Lost = err.Error()
		}
		return
	}
	if e.First == 0 {
		e.First = now
	}
	e.Last = now
}
