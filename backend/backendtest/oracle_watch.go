package backendtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// shownFaults is how many faults are shown: one defect causes thousands.
const shownFaults = 10

// oracle is the parent of the processes.
type oracle struct {
	seats   []*seat
	changed map[int]moment // when the processes were told each number of slots
}

// watch lets the processes contend for one number of slots after another. In each phase leases are kept until that number
// was led at one time; then they come and go, and faults happen to the processes.
func (o *oracle) watch(t *testing.T, phase time.Duration) {
	t.Helper()
	o.changed = make(map[int]moment)
	for _, slots := range oracleSlots() {
		o.changed[slots] = thisMoment()
		for _, s := range o.seats {
			s.tell(slots)
		}
		until(t, fmt.Sprintf("%d slots are led at one time", slots), func() bool {
			most, _ := o.all().under(slots).count()
			return most[slots] >= slots
		})
		for _, s := range o.seats {
			s.stir()
		}
		o.torment(t.Context(), phase)
	}
}

// torment lets faults happen to all processes for a while.
func (o *oracle) torment(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var tormenting sync.WaitGroup
	for _, s := range o.seats {
		tormenting.Go(func() { s.torment(ctx) })
	}
	tormenting.Wait()
}

// end lets the processes end, and returns all tenures.
func (o *oracle) end(t testing.TB) tenures {
	t.Helper()
	for _, s := range o.seats {
		s.end()
		for _, err := range s.errs {
			t.Error(err)
		}
	}
	return o.all()
}

// all returns what was reported so far.
func (o *oracle) all() tenures {
	var all tenures
	for _, s := range o.seats {
		all = append(all, s.reports()...)
	}
	return all
}

// judge reports what must not be, and prints what was counted.
func (o *oracle) judge(t testing.TB, all tenures) {
	t.Helper()
	most, faults := all.count()
	faults = append(faults, all.fences()...)
	for _, fault := range faults[:min(len(faults), shownFaults)] {
		t.Error(fault)
	}
	if more := len(faults) - shownFaults; more > 0 {
		t.Errorf("and %d more", more)
	}
	slots := oracleSlots()
	for _, n := range slots {
		t.Logf("N = %d: at most %d concurrent holders", n, most[n])
	}
	last := slots[len(slots)-1]
	if settled := all.lastAbove(last); settled > o.changed[last] {
		t.Logf("it settled at N = %d when the last elector with more slots had released, %v after the change", last,
			rounded(settled.since(o.changed[last])))
	}
	t.Logf("%d holdings by %d goroutines in %d processes; faults: %s", len(all),
		oracleProcesses*oracleElectors*oracleContenders, oracleProcesses, o.faults())
}

// faults says how many of each there have been.
func (o *oracle) faults() string {
	sum := make(map[string]int)
	for _, s := range o.seats {
		for name, n := range s.faults {
			sum[name] += n
		}
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		words = append(words, fmt.Sprintf("%d × %s", sum[name], name))
	}
	return strings.Join(words, ", ")
}
