package backendtest

import (
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// beside is how many cases run at the same time. They wait for TTLs most of the time, so it does not follow the
	// number of processors, as -parallel does.
	beside = 8
	// patience is how long the suite waits beyond what a rule allows before it calls the driver stuck. It is long
	// because it decides nothing but how fast a broken driver is reported.
	patience = 10 * time.Second
)

// Run executes the rules of package backend on a driver, each case as a subtest. A failure names the rule.
//
// It gives no false alarms: whatever depends on time is judged by instants taken before a request was sent and after
// its answer came, never by how fast the machine is. A case that the store answers too slowly for says so, and wants a
// longer [Config].TTL. A broken driver may pass by luck, so run the suite often and under the race detector.
func Run(t *testing.T, c Config) {
	t.Helper()
	c = c.withDefaults(t)
	describe(t, c)

	found := newFindings()
	each(func(tc testCase) {
		t.Run(tc.name, func(t *testing.T) {
			o := tc.perform(t, c, patience)
			found.add(tc.name, o)
			o.report(t)
		})
	})
	found.write(t, c)
}

// each runs every case: first those that have to be alone, one by one, then the others beside each other.
func each(run func(tc testCase)) {
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, beside)
	var others []testCase
	for _, tc := range suite() {
		if !tc.needs.alone() {
			others = append(others, tc)
			continue
		}
		run(tc)
	}
	for _, tc := range others {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			run(tc)
		})
	}
}

// Cases yields the name of every case and the rule that it executes.
func Cases() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, tc := range suite() {
			if !yield(tc.name, tc.text()) {
				return
			}
		}
	}
}

// describe prints what is being tested.
func describe(t *testing.T, c Config) {
	t.Helper()
	t.Run("Describe", func(t *testing.T) {
		d := c.Open(t, 1)[0]
		t.Logf("%s: fidelity %s, TTL %v, skew %v, limits %+v", d.Name(), c.Fidelity, c.TTL, c.Skew, limitsOf(d))
		if d.Name() == "" {
			t.Error("Name is empty")
		}
		if low := limitsOf(d).MinTTL; c.TTL < low {
			t.Errorf("Config.TTL is %v, under the driver's minimum of %v", c.TTL, low)
		}
		if checker, ok := backend.As[backend.Checker](d); ok {
			if err := checker.Check(); err != nil {
				t.Errorf("Check refuses the options under test: %v", err)
			}
		}
	})
}

// execute runs the case and reports to tb.
func (tc testCase) execute(tb testing.TB, c Config, patience time.Duration) {
	tb.Helper()
	tc.perform(tb, c, patience).report(tb)
}

// perform runs the case, reports failures to tb, and returns what came of it.
func (tc testCase) perform(tb testing.TB, c Config, patience time.Duration) Outcome {
	tb.Helper()
	if reason, ok := c.Skip[tc.name]; ok {
		return Outcome{Skipped, reason}
	}
	if missing := tc.missing(c); missing != "" {
		return Outcome{Skipped, missing}
	}
	// Long enough for ten terms that end by expiry, the longest that a case waits, in a store that is late.
	limit := 60*time.Second + 24*c.TTL
	t, cancel := newCaseT(tb, tc, c, patience, limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tc.run(t)
	}()
	watchdog := time.NewTimer(limit + patience) // what is bound by its context fails by itself
	defer watchdog.Stop()
	select {
	case <-done:
	case <-watchdog.C:
		t.abandon(fmt.Sprintf("the case is still running after %v:\n%s", limit+patience, stacks()))
	}
	return t.outcome()
}

// missing names what the case needs and c cannot do.
func (tc testCase) missing(c Config) string {
	switch {
	case tc.needs&needPartition != 0 && c.Partition == nil:
		return "the test freezes no connections (Config.Partition is nil)"
	case tc.needs&needRestart != 0 && c.Restart == nil:
		return "the test restarts no store (Config.Restart is nil)"
	case tc.needs&needCorrupt != 0 && c.Corrupt == nil:
		return "the test harms no records (Config.Corrupt is nil)"
	}
	return ""
}

func stacks() string {
	text := make([]byte, 1<<16)
	return string(text[:runtime.Stack(text, true)])
}

// limitsOf returns d's limits; zero if it has none.
func limitsOf(d backend.Driver) backend.Limits {
	if l, ok := backend.As[backend.Limited](d); ok {
		return l.Limits()
	}
	return backend.Limits{}
}
