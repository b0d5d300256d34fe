package backendtest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// A term is the time during which a contender knew that it held the key: from the arrival of the answer to the sending
// of the release, or to the TTL after the request was sent, less the skew, if that is earlier. A term whose answer came
// later than that is empty: its holder never trusted it.
type term struct {
	Owner      string
	Fence      uint64
	Start, End time.Time
}

func (a term) empty() bool { return !a.Start.Before(a.End) }

func (a term) String() string {
	const clock = "15:04:05.000000"
	return fmt.Sprintf("%s with fence %d from %s to %s", a.Owner, a.Fence, a.Start.Format(clock), a.End.Format(clock))
}

// history collects terms. Its zero value is empty, and it may be used concurrently.
type history struct {
	mu    sync.Mutex
	terms []term
}

func (h *history) add(t term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.terms = append(h.terms, t)
}

// sorted returns the terms by their start.
func (h *history) sorted() []term {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(slices.Values(h.terms), func(a, b term) int { return a.Start.Compare(b.Start) })
}

// check returns what is wrong with terms, which are sorted by their start: two that overlap, a fence that does not grow, a
// fence that was given twice. Empty terms count for the last alone, since when they were granted
// is not known.
func check(terms []term) []string {
	var faults []string
	given := make(map[uint64]term)
	var last *term
	for _, now := range terms {
		if other, ok := given[now.Fence]; ok {
			faults = append(faults, fmt.Sprintf("one fence twice: %v, and %v", other, now))
		}
		given[now.Fence] = now
		if now.empty() {
			continue
		}
		if last != nil {
			if overlap := last.End.Sub(now.Start); overlap > 0 {
				faults = append(faults, fmt.Sprintf("an overlap of %v: %v, and %v", overlap, *last, now))
			}
			if now.Fence < last.Fence {
				faults = append(faults, fmt.Sprintf("a fence that goes back: %v, and then %v", *last, now))
			}
		}
		if last == nil || now.End.After(last.End) {
			last = &now
		}
	}
	return faults
}

// write stores terms for a post-mortem.
func write(file string, terms []term) error {
	text, err := json.MarshalIndent(terms, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
