package metrics_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/goleader/leader/metrics"
)

func TestFirstNames_KeepsTheFirstOnes(t *testing.T) {
	name := metrics.FirstNames(2)
	for _, row := range [][2]string{{"a", "a"}, {"b", "b"}, {"c", "other"}, {"a", "a"}, {"d", "other"}, {"b", "b"}} {
		if got := name(row[0]); got != row[1] {
			t.Errorf("%s became %s, want %s", row[0], got, row[1])
		}
	}
}

func TestFirstNames_OfNone_AreAllOther(t *testing.T) {
	if got := metrics.FirstNames(0)("a"); got != metrics.Other {
		t.Errorf("a became %s", got)
	}
}

func TestFirstNames_AnswersTheSameForANameEachTime_ConcurrentSafe(t *testing.T) {
	const names, callers = 10_000, 8
	name := metrics.FirstNames(metrics.DefaultNames)
	answers := make([][]string, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := range names {
				// Everybody begins elsewhere, so that all want to be among the first.
				answers[caller] = append(answers[caller], name(strconv.Itoa((n+caller*names/callers)%names)))
			}
		})
	}
	wg.Wait()
	kept := make(map[string]bool)
	for caller, list := range answers {
		for n, answer := range list {
			asked := strconv.Itoa((n + caller*names/callers) % names)
			if answer != asked && answer != metrics.Other {
				t.Fatalf("%s became %s", asked, answer)
			}
			if first := answers[0][(n+caller*names/callers)%names]; first != answer {
				t.Fatalf("%s became %s and %s", asked, first, answer)
			}
			kept[answer] = true
		}
	}
	if len(kept) != metrics.DefaultNames+1 {
		t.Errorf("%d names are told apart, want %d and %q", len(kept), metrics.DefaultNames, metrics.Other)
	}
}
