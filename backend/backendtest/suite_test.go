package backendtest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRun_PassesACorrectDriver(t *testing.T) {
	Run(t, openFaulty("", mutantTTL))
}

func TestRun_PassesABlockingDriver(t *testing.T) {
	for _, tc := range partitionCases() {
		t.Run(tc.name, func(t *testing.T) { tc.execute(t, openFaulty(blocking, mutantTTL), patience) })
	}
}

func TestCases_AreNamedOnceAndStateARule(t *testing.T) {
	seen := make(map[string]bool)
	for name, rule := range Cases() {
		if seen[name] {
			t.Errorf("two cases are called %s", name)
		}
		seen[name] = true
		topic, what, ok := strings.Cut(name, "_")
		if !ok || topic == "" || what == "" {
			t.Errorf("the case %q is not named Topic_WhatHolds", name)
		}
		if head, text, ok := strings.Cut(rule, ": "); !ok || head == "" || text == "" {
			t.Errorf("the case %s states the rule %q", name, rule)
		}
	}
	if len(seen) != len(suite()) {
		t.Errorf("Cases yields %d cases of %d", len(seen), len(suite()))
	}
}

func TestRun_SkipsWhatConfigLeavesOut(t *testing.T) {
	c := openFaulty("never expires", mutantTTL)
	c.Corrupt = nil
	c.Skip = map[string]string{"Expiry_FreesWithoutHelp": "it never expires"}
	for _, tc := range suite() {
		if tc.name != "Expiry_FreesWithoutHelp" && tc.needs&needCorrupt == 0 {
			continue
		}
		r := &recorder{TB: t}
		tc.execute(r, c, mutantPatience)
		if len(r.failures) != 1 || !strings.HasPrefix(r.failures[0], "skipped") {
			t.Errorf("%s reports %q, want that it is skipped", tc.name, r.failures)
		}
	}
}

func TestRun_SkipsAbilitiesThatAreNotOffered(t *testing.T) {
	for _, tc := range suite() {
		if tc.rule < abilityWaiter || tc.rule == abilityLossNotifier { // which is one of leases
			continue
		}
		r := &recorder{TB: t}
		tc.execute(r, openFaulty(plain, mutantTTL), mutantPatience)
		if len(r.failures) != 1 || !strings.Contains(r.failures[0], "skipped: faulty does not offer the ability ") {
			t.Errorf("%s reports %q, want that the driver does not offer the ability", tc.name, r.failures)
		}
	}
}

func TestRun_WritesItsResults(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(matrixFolder, folder)
	c := openFaulty("", mutantTTL)
	c.Skip = map[string]string{"Held_IsAnOrdinaryAnswer": "it is not"}
	want := map[string]Outcome{
		"Fence_IsConstant":        {Verdict: Passed},
		"Held_IsAnOrdinaryAnswer": {Skipped, "it is not"},
		"Release_Frees":           {Verdict: Failed},
		"Break_EndsTheLease":      {NotOffered, "faulty does not offer the ability Breaker"},
	}
	sinful := map[string]string{"Release_Frees": "release does nothing", "Break_EndsTheLease": plain}
	f := newFindings()
	for _, tc := range suite() {
		if _, ok := want[tc.name]; !ok {
			continue
		}
		if sin, ok := sinful[tc.name]; ok {
			f.add(tc.name, tc.perform(&recorder{TB: t}, openFaulty(sin, mutantTTL), patience))
			continue
		}
		f.add(tc.name, tc.perform(t, c, patience))
	}
	f.write(t, c)
	text, err := os.ReadFile(filepath.Join(folder, "backendtest-TestRun_WritesItsResults.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got Results
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Backend != "faulty" || got.Package != "backendtest" || got.Fidelity != Embedded || !maps.Equal(got.Cases, want) {
		t.Errorf("got %+v, want faulty, backendtest, embedded, %+v", got, want)
	}
}

func TestMost_CountsTermsAtOneInstant(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	terms := []term{
		{"a", 1, at(0), at(10)},
		{"b", 2, at(10), at(20)},
		{"late", 3, at(15), at(12)}, // empty
		{"c", 4, at(18), at(30)},
		{"d", 5, at(19), at(21)},
	}
	if got := most(terms); got != 3 {
		t.Errorf("at most %d terms are counted at once, want 3", got)
	}
}

func TestCheck_FindsWhatIsWrongWithAHistory(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	good := []term{
		{"a", 1, at(0), at(10)},
		{"b", 2, at(10), at(20)},
		{"late", 3, at(29), at(25)}, // empty: its answer came after its end
		{"c", 4, at(21), at(30)},
	}
	slices.SortFunc(good, func(a, b term) int { return a.Start.Compare(b.Start) })
	if faults := check(good); len(faults) > 0 {
		t.Errorf("a serial history is reported: %q", faults)
	}
	for name, bad := range map[string][]term{
		"overlap":         {{"a", 1, at(0), at(11)}, {"b", 2, at(10), at(20)}},
		"inside":          {{"a", 1, at(0), at(50)}, {"b", 2, at(10), at(20)}},
		"inside, later":   {{"a", 1, at(0), at(50)}, {"e", 2, at(1), at(1)}, {"b", 3, at(40), at(45)}},
		"fence goes back": {{"a", 2, at(0), at(10)}, {"b", 1, at(10), at(20)}},
		"fence twice":     {{"a", 2, at(0), at(10)}, {"b", 2, at(10), at(20)}},
		"empty, twice":    {{"a", 2, at(0), at(10)}, {"b", 2, at(20), at(15)}},
	} {
		if faults := check(bad); len(faults) != 1 {
			t.Errorf("%s: %d faults are reported, want 1: %q", name, len(faults), faults)
		}
	}
}

func BenchmarkFaulty(b *testing.B) {
	Bench(b, openFaulty("", mutantTTL))
}
