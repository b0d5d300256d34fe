package backendtest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// outcome is what came of a fault.
type outcome struct {
	holder, contender []holding
	from              func(name string) moment // what the take-over of a name is counted from
	since             string                   // the same, in words
}

// at counts the take-overs of all names from one moment.
func at(m moment) func(string) moment { return func(string) moment { return m } }

// A handover is that a name went from one holding to the next.
type handover struct{ from, to holding }

// overlap is how long both were trusted at one time; a gap is negative.
func (h handover) overlap() time.Duration {
	return min(h.from.Last, h.to.Last).since(max(h.from.First, h.to.First))
}

func (h handover) String() string {
	return fmt.Sprintf("%q, fence %d and then %d", h.from.Name, h.from.Fence, h.to.Fence)
}

// handovers returns those of all names. A holding that was never trusted is none.
func (o outcome) handovers() []handover {
	all := slices.DeleteFunc(slices.Concat(o.holder, o.contender), func(h holding) bool { return h.First == 0 })
	slices.SortFunc(all, func(a, b holding) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.First, b.First))
	})
	var found []handover
	for i := 1; i < len(all); i++ {
		if all[i-1].Name == all[i].Name {
			found = append(found, handover{all[i-1], all[i]})
		}
	}
	return found
}

// faults returns what must not be: an overlap, or a fence that does not grow.
func (o outcome) faults() []string {
	var faults []string
	for _, h := range o.handovers() {
		if d := h.overlap(); d > 0 {
			faults = append(faults, fmt.Sprintf("%v: both were trusted for %v", h, d))
		}
		if h.to.Fence <= h.from.Fence {
			faults = append(faults, fmt.Sprintf("%v: the fence does not grow", h))
		}
	}
	return faults
}

// judge reports what must not be, and prints what was measured.
func (o outcome) judge(t testing.TB) {
	t.Helper()
	for _, fault := range o.faults() {
		t.Error(fault)
	}
	t.Log(o.summary())
}

func (o outcome) summary() string {
	all := o.handovers()
	if len(all) == 0 {
		return fmt.Sprintf("%d seeds, largest overlap none: no lease was lost", seeds)
	}
	overlaps := make([]time.Duration, len(all))
	for i, h := range all {
		overlaps[i] = h.overlap()
	}
	waits := o.takeovers()
	return fmt.Sprintf("%d seeds, largest overlap %v (%d leases changed hands, at p50 %v after %s, %v at most)",
		seeds, rounded(slices.Max(overlaps)), len(all), rounded(median(waits)), o.since, rounded(slices.Max(waits)))
}

// takeovers returns how long it took, in each name that the holder lost, until the contender led.
func (o outcome) takeovers() []time.Duration {
	var waits []time.Duration
	for _, h := range o.handovers() {
		waits = append(waits, h.to.First.since(o.from(h.to.Name)))
	}
	return waits
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// rounded is fit to be read.
func rounded(d time.Duration) time.Duration {
	if d.Abs() < time.Second {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
