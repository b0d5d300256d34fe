package leader

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Candidate is a node that may be elected. The zero time stands for an instant that is not known, or has not come.
type Candidate struct {
	Node       string    // default: the elector's node id
	Registered time.Time // of the first enrolment, by the store's clock
	LastStart  time.Time // of a run
	LastFinish time.Time
	LastOK     time.Time         // of the last successful run
	Successes  int64             // runs
	Failures   int64             // runs
	Metadata   map[string]string // free facts for scorers; at most 16 keys of 64 bytes, with values of 256
}

// SuccessRate is the share of the candidate's runs that succeeded, from 0 to 1. It is 0 without runs; a negative count
// counts as none.
func (c Candidate) SuccessRate() float64 {
	// As floats, since the sum of two counts may overflow.
	successes, failures := float64(max(0, c.Successes)), float64(max(0, c.Failures))
	if successes == 0 {
		return 0
	}
	return successes / (successes + failures)
}

// Idle is how long the candidate has been without work at the instant now: since its last run began or ended, whichever
// was later, or since it registered if there was none. It is never negative, and 0 if nothing of that is known. A run
// that began and never ended, because its process died, does not make the candidate look busy for ever.
func (c Candidate) Idle(now time.Time) time.Duration {
	since := c.LastFinish
	if c.LastStart.After(since) {
		since = c.LastStart
	}
	if since.IsZero() {
		since = c.Registered
	}
	if since.IsZero() {
		return 0
	}
	return max(0, now.Sub(since))
}

// ranked returns the candidates by registration, then node id: the order in which ties are broken. It is a copy, the same
// for every order of the argument. Candidates without a node id are left out. Of those with the same one the newest
// stays, which is the one that registered last or, at the same instant, has done more.
func ranked(candidates []Candidate) []Candidate {
	list := slices.Clone(candidates)
	for i := range list {
		list[i].Registered = list[i].Registered.Round(0) // a monotonic reading says nothing to another node
	}
	list = slices.DeleteFunc(list, func(c Candidate) bool { return c.Node == "" })
	slices.SortFunc(list, func(a, b Candidate) int { return cmp.Or(cmp.Compare(a.Node, b.Node), b.compareAge(a)) })
	list = slices.CompactFunc(list, func(a, b Candidate) bool { return a.Node == b.Node })
	slices.SortFunc(list, func(a, b Candidate) int {
		return cmp.Or(a.Registered.Compare(b.Registered), cmp.Compare(a.Node, b.Node))
	})
	return list
}

// compareAge is positive if c is newer than other. It is 0 only if they are equal.
func (c Candidate) compareAge(other Candidate) int {
	return cmp.Or(
		c.Registered.Compare(other.Registered),
		cmp.Compare(c.Successes, other.Successes),
		cmp.Compare(c.Failures, other.Failures),
		c.LastStart.Compare(other.LastStart),
		c.LastFinish.Compare(other.LastFinish),
		c.LastOK.Compare(other.LastOK),
		slices.Compare(pairs(c.Metadata), pairs(other.Metadata)),
	)
}

// pairs lists keys and values in turn, by key.
func pairs(m map[string]string) []string {
	list := make([]string, 0, 2*len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key, m[key])
	}
	return list
}
