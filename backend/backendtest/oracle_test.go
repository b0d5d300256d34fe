package backendtest

import (
	"maps"
	"strings"
	"testing"
)

func TestTenures_Count_FindsWhatMustNotBe(t *testing.T) {
	for name, test := range map[string]struct {
		all  tenures
		most map[int]int
		want []string // parts of the faults
	}{
		"nobody": {nil, map[int]int{}, nil},
		"two of two": {
			tenures{{0, 1, "a", 2, 10, 20}, {1, 1, "b", 2, 15, 25}, {0, 2, "c", 2, 20, 30}},
			map[int]int{2: 2},
			nil,
		},
		"an instant counts": {
			tenures{{0, 1, "a", 2, 10, 10}, {1, 1, "b", 2, 5, 25}},
			map[int]int{2: 2},
			nil,
		},
		"one slot twice": {
			tenures{{0, 2, "b", 2, 19, 30}, {0, 1, "a", 2, 10, 20}},
			map[int]int{2: 2},
			[]string{"slot 0 of 2 by a with fence 1 and slot 0 of 2 by b with fence 2: both were trusted for 1ns"},
		},
		"one slot twice, inside": {
			tenures{{1, 1, "a", 2, 10, 40}, {1, 2, "b", 2, 20, 30}},
			map[int]int{2: 2},
			[]string{"both were trusted for 10ns"},
		},
		"a slot too high": {
			tenures{{2, 1, "a", 2, 10, 20}},
			map[int]int{2: 1},
			[]string{"slot 2 of 2 by a with fence 1: there is no such slot"},
		},
		"a rollout to more": {
			tenures{{0, 1, "a", 2, 10, 20}, {2, 1, "b", 3, 15, 30}, {1, 1, "c", 2, 16, 18}, {0, 2, "a", 2, 31, 32}},
			map[int]int{2: 1, 3: 3},
			nil,
		},
		"a rollout to fewer that does not settle": {
			tenures{{2, 1, "b", 3, 5, 10}, {0, 1, "a", 2, 6, 20}, {1, 1, "a", 2, 7, 20}, {2, 1, "c", 2, 10, 11}},
			map[int]int{3: 3, 2: 3},
			[]string{"no such slot", "3 hold at one time, and no elector of theirs has more than 2 slots"},
		},
	} {
		most, faults := test.all.count()
		if !maps.Equal(most, test.most) {
			t.Errorf("%s: %v at most, want %v", name, most, test.most)
		}
		checkFaults(t, name, faults, test.want)
	}
}

func TestTenures_Fences_FindsOnesThatDoNotGrow(t *testing.T) {
	for name, test := range map[string]struct {
		all  tenures
		want []string
	}{
		"growing":    {tenures{{0, 7, "b", 2, 30, 40}, {0, 5, "a", 2, 10, 20}, {1, 6, "b", 2, 25, 40}}, nil},
		"the same":   {tenures{{0, 5, "a", 2, 10, 20}, {0, 5, "b", 2, 30, 40}}, []string{"the fence does not grow"}},
		"smaller":    {tenures{{0, 5, "a", 2, 10, 20}, {0, 4, "b", 2, 30, 40}}, []string{"the fence does not grow"}},
		"other slot": {tenures{{0, 5, "a", 2, 10, 20}, {1, 4, "b", 2, 30, 40}}, nil},
	} {
		checkFaults(t, name, test.all.fences(), test.want)
	}
}

func TestTenures_LastAbove_IsTheEndOfTheLastOneWithMoreSlots(t *testing.T) {
	all := tenures{{0, 5, "a", 5, 10, 20}, {1, 6, "b", 3, 10, 30}, {1, 7, "b", 2, 50, 60}}
	for slots, want := range map[int]moment{1: 60, 2: 30, 3: 20, 5: 0} {
		if got := all.lastAbove(slots); got != want {
			t.Errorf("%d slots: %d, want %d", slots, got, want)
		}
	}
}

func checkFaults(t *testing.T, name string, faults, want []string) {
	t.Helper()
	if len(faults) != len(want) {
		t.Errorf("%s: %d faults, want %d: %q", name, len(faults), len(want), faults)
		return
	}
	for i, fault := range faults {
		if !strings.Contains(fault, want[i]) {
			t.Errorf("%s: fault %q, want one with %q", name, fault, want[i])
		}
	}
}
