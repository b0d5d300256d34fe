package backendtest

import (
	"cmp"
	"fmt"
	"slices"
)

// tenures are those of a whole test.
type tenures []tenure

func (n tenure) String() string {
	return fmt.Sprintf("slot %d of %d by %s with fence %d", n.Slot, n.Slots, n.Node, n.Fence)
}

// count goes through all instants at which a tenure began, as there are never more at one time than at some of those. It
// returns the largest number at one time for each number of slots, the largest of those who lead then, and what must not
// be. Tenures that only touch are not at one time.
func (all tenures) count() (most map[int]int, faults []string) {
	all = slices.SortedFunc(slices.Values(all), func(a, b tenure) int { return cmp.Compare(a.First, b.First) })
	most = make(map[int]int)
	var active tenures
	for _, n := range all {
		active = slices.DeleteFunc(active, func(a tenure) bool { return a.Last <= n.First })
		for _, a := range active {
			if a.Slot == n.Slot {
				faults = append(faults, fmt.Sprintf("%v and %v: both were trusted for %v",
					a, n, min(a.Last, n.Last).since(n.First)))
			}
		}
		if n.Slot < 0 || n.Slot >= n.Slots {
			faults = append(faults, fmt.Sprintf("%v: there is no such slot", n))
		}
		active = append(active, n)
		slots := active.slots()
		most[slots] = max(most[slots], len(active))
		if len(active) > slots {
			faults = append(faults, fmt.Sprintf("%d hold at one time, and no elector of theirs has more than %d slots: %v",
				len(active), slots, active))
		}
	}
	return most, faults
}

// slots is the largest number of slots of an elector.
func (all tenures) slots() int {
	most := 0
	for _, n := range all {
		most = max(most, n.Slots)
	}
	return most
}

// under returns those of electors with that number of slots.
func (all tenures) under(slots int) tenures {
	return slices.DeleteFunc(slices.Clone(all), func(n tenure) bool { return n.Slots != slots })
}

// fences returns where the fence of a slot does not grow.
func (all tenures) fences() (faults []string) {
	bySlot := slices.SortedFunc(slices.Values(all), func(a, b tenure) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.First, b.First))
	})
	for i := 1; i < len(bySlot); i++ {
		from, to := bySlot[i-1], bySlot[i]
		if from.Slot == to.Slot && to.Fence <= from.Fence {
			faults = append(faults, fmt.Sprintf("%v, and then %v: the fence does not grow", from, to))
		}
	}
	return faults
}

// lastAbove is the end of the last tenure under an elector of more than that number of slots.
func (all tenures) lastAbove(slots int) moment {
	var last moment
	for _, n := range all {
		if n.Slots > slots {
			last = max(last, n.Last)
		}
	}
	return last
}
