package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
)

// A tenure is the time of which is known that a lease of a slot was trusted, from the return of its acquisition on. Like
// the ends of a [holding], both instants were read before a check that found it trusted.
type tenure struct {
	Slot  int
	Fence uint64
	Node  string
	Slots int // of the elector
	First moment
	Last  moment
}

// journal checks the leases of a process all the time, and reports their tenures up to now, as long as they last. It may
// be used concurrently.
type journal struct {
	out io.Writer

	mu     sync.Mutex
	leases []*tenant
}

type tenant struct {
	lease *leader.Lease
	tenure
}

// newJournal returns a journal that checks until the test ends.
func newJournal(t testing.TB, out io.Writer) *journal {
	t.Helper()
	j := &journal{out: out}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for ticker := time.NewTicker(glance); ctx.Err() == nil; <-ticker.C {
			j.check()
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return j
}

// add takes in a lease that was just acquired by an elector with that many slots.
func (j *journal) add(l *leader.Lease, slots int) {
	info := l.Info()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leases = append(j.leases, &tenant{l, tenure{Slot: info.Slot, Fence: info.Fence, Node: info.Node, Slots: slots}})
	j.checkAll()
}

// check looks at every lease.
func (j *journal) check() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.checkAll()
}

// checkAll is check with j.mu held. What it found is in the pipe before anybody can act on it.
func (j *journal) checkAll() {
	var report bytes.Buffer
	lines := json.NewEncoder(&report)
	j.leases = slices.DeleteFunc(j.leases, func(l *tenant) bool {
		if !l.check() {
			return true
		}
		_ = lines.Encode(l.tenure) // numbers and a string
		return false
	})
	if report.Len() > 0 {
		_, _ = j.out.Write(report.Bytes()) // it fails once the parent is gone
	}
}

// check makes one check, and reports whether it found the lease trusted. It does so if any way of asking says so.
func (l *tenant) check() bool {
	now := thisMoment()
	if l.lease.Err() != nil && l.lease.Context().Err() != nil {
		return false
	}
	if l.First == 0 {
		l.First = now
	}
	l.Last = now
	return true
}
