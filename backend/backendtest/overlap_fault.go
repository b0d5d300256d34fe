package backendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// suffer lets a fault happen on a stage of its own.
func (c OverlapConfig) suffer(t *testing.T, f Fault) {
	t.Helper()
	lease := cmp.Or(f.Lease, c.Lease)
	stage := f.Stage(t)
	d := newDuel(t, c.Dial(t, stage.Holder), c.Dial(t, stage.Contender), lease, phases(lease))
	d.fight(t, f, stage.Do).judge(t)
}

// duel is a holder and a contender in this process.
type duel struct {
	holder    *holder
	contender *contender
	lease     time.Duration
}

// phases is a time over which acquisitions are spread so that no two leases are in the same phase of their renewal.
func phases(lease time.Duration) time.Duration { return lease / 3 }

// newDuel returns when the holder has every name, acquired within about the given time, and the contender knows it.
func newDuel(t testing.TB, holder, contender backend.Driver, lease, within time.Duration) *duel {
	t.Helper()
	for range setUps {
		d := &duel{lease: lease}
		d.holder = hold(t, holder, lease, within)
		d.contender = contend(t, contender, lease, idle)
		until(t, "the contender finds every name held", func() bool {
			return d.contender.scout.refusedAll() || d.holder.lostOne()
		})
		if !d.holder.lostOne() {
			return d
		}
		t.Log("a lease was lost before the fault, for this process was held up: once more")
		d.leave(t)
	}
	t.Fatalf("the holder lost leases without a fault, %d times", setUps)
	return nil
}

// fight makes the fault happen, waits for its effect, and ends when both have gone.
func (d *duel) fight(t testing.TB, f Fault, do func(t testing.TB) (heal func())) outcome {
	t.Helper()
	t.Log(d.phases())
	struck := thisMoment()
	heal := healing(t, do)
	switch {
	case f.Lasts > 0:
		<-time.After(f.Lasts)
	case f.Effect == LosesAll:
		until(t, "the contender leads every name", d.contender.leadsAll)
	}
	heal()
	healed := thisMoment()
	d.settle(t, f.Effect)
	d.leave(t)
	o := outcome{holder: d.holder.holdings(), contender: d.contender.holdings(), from: at(struck), since: "the fault"}
	if f.Within == 0 {
		return o
	}
	o.from, o.since = at(healed), "its end"
	for i, wait := range o.takeovers() {
		if limit := f.Within + d.contender.longestStall(); wait > limit {
			t.Errorf("%v: led %v after the end of the fault, want at most %v", o.handovers()[i], wait, limit)
		}
	}
	return o
}

// phases says in which phases of their renewal the leases are.
func (d *duel) phases() string {
	left := make([]time.Duration, seeds)
	for i, l := range d.holder.leases {
		left[i] = time.Until(l.TrustedUntil())
	}
	return fmt.Sprintf("%d leases of %v, trusted for another %v to %v unless renewed",
		seeds, d.lease, rounded(slices.Min(left)), rounded(slices.Max(left)))
}

// healing makes a fault happen and returns what heals it; the end of the test does at the latest.
func healing(t testing.TB, do func(t testing.TB) (heal func())) (heal func()) {
	t.Helper()
	heal = do(t)
	if heal == nil {
		return func() {}
	}
	heal = sync.OnceFunc(heal)
	t.Cleanup(heal)
	return heal
}

// settle waits until each name has a holder who has renewed since the healing, and checks that it is the right one.
func (d *duel) settle(t testing.TB, e Effect) {
	t.Helper()
	// Trust ends a margin before the lease does, so a renewal that moves it up to here was sent after the healing.
	renewed := time.Now().Add(d.lease)
	until(t, "every name has one holder, who renews", func() bool {
		for i := range seeds {
			if !d.settled(i, e, renewed) {
				return false
			}
		}
		return true
	})
	for i, l := range d.holder.leases {
		if l.Err() == nil {
			d.checkKept(t, i, e)
		} else {
			d.checkLost(t, i, e)
		}
	}
}

func (d *duel) settled(i int, e Effect, renewed time.Time) bool {
	l := d.holder.leases[i]
	if l.Err() != nil {
		if e == LosesNone {
			return true // and wrong
		}
		l = d.contender.leads(seedName(i))
	}
	return l != nil && l.Err() == nil && l.TrustedUntil().After(renewed)
}

// checkKept checks a lease that its holder has kept.
func (d *duel) checkKept(t testing.TB, i int, e Effect) {
	t.Helper()
	l, kept := d.holder.leases[i], d.holder.holdings()[i]
	if e == LosesAll {
		t.Errorf("%s: the lease is trusted, want that the fault costs it", kept.Name)
	}
	if kept.Lost != "" {
		t.Errorf("%s: the lease is trusted, but was once found lost: %s", kept.Name, kept.Lost)
	}
	select {
	case <-l.Context().Done():
		t.Errorf("%s: the context has ended: %v", kept.Name, context.Cause(l.Context()))
	default:
	}
	d.checkState(t, kept.Name, holderNode, kept.Fence)
}

// checkLost checks a lease that its holder has lost.
func (d *duel) checkLost(t testing.TB, i int, e Effect) {
	t.Helper()
	l, name := d.holder.leases[i], seedName(i)
	if e == LosesNone {
		t.Errorf("%s: %v, want that nothing is lost", name, l.Err())
		return
	}
	if err := l.Err(); !errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("%s: Err: %v, want ErrLeaseLost", name, err)
	}
	done := l.Context().Done()
	until(t, "the context of a lost lease is done", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if cause := context.Cause(l.Context()); !errors.Is(cause, leader.ErrLeaseLost) {
		t.Errorf("%s: the context ended with %v, want ErrLeaseLost", name, cause)
	}
	if next := d.contender.leads(name); next != nil {
		d.checkState(t, name, contenderNode, next.Info().Fence)
	}
}

func (d *duel) checkState(t testing.TB, name, node string, fence uint64) {
	t.Helper()
	var s leader.State
	until(t, "the state can be asked for", func() bool {
		var err error
		s, err = d.contender.elector.State(t.Context(), name)
		return err == nil // a connection may still be of the time before the fault
	})
	if s.Node != node || s.Fence != fence {
		t.Errorf("State(%q): %q with fence %d, want %q with fence %d", name, s.Node, s.Fence, node, fence)
	}
}

// leave lets both go, and waits until every name is free.
func (d *duel) leave(t testing.TB) {
	t.Helper()
	d.contender.stop()
	d.holder.release()
	for i := range seeds {
		until(t, "a released name is free", func() bool {
			s, err := d.contender.elector.State(t.Context(), seedName(i))
			return err == nil && s.Node == "" && !s.Kept
		})
	}
}

const (
	// watchdog is for what takes some leases, of a store that may be late.
	watchdog = time.Minute
	// setUps is how often a duel is set up until nothing goes wrong before the fault.
	setUps = 5
)

// until waits until cond holds.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(watchdog); !cond(); time.Sleep(glance) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", watchdog, what)
		}
	}
}
