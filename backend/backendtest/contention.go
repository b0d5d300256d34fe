package backendtest

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

const contenders = 8

func contentionCases() []testCase {
	return []testCase{{
		name: "Contention_IsSerial",
		rule: ruleExclusion,
		says: "the terms of eight contenders on two clients do not overlap, and their fences grow in the order of the terms",
		run:  isSerial,
	}}
}

// isSerial lets some holders go away without a release, so that terms end in both ways.
func isSerial(t *caseT) {
	drivers := t.open(2)
	start := time.Now()
	end := start.Add(max(3*time.Second, 3*t.ttl()))
	var history history
	var deaths atomic.Int64 // one is due every other TTL, counted from the first
	t.together(contenders, func(i int) {
		d := drivers[i%len(drivers)]
		for time.Now().Before(end) && !t.Failed() {
			g, err := t.try(d, t.request("job", t.ttl()))
			if err != nil {
				if !errors.Is(err, backend.ErrHeld) {
					t.Errorf("TryAcquire: %v, want success or ErrHeld", err)
				}
				t.pause(time.Millisecond)
				continue
			}
			t.pause(time.Duration(i) * 300 * time.Microsecond)
			if time.Now().After(start.Add(t.ttl() * time.Duration(1+2*deaths.Load()))) {
				deaths.Add(1)
				history.add(t.term(g, g.sure()))
				continue
			}
			history.add(t.term(g, time.Now()))
			if err := g.Release(t.Context(), 0); err != nil {
				t.Errorf("Release: %v, want nil", err)
			}
		}
	})
	terms := history.sorted()
	t.Logf("%d terms, %d of them ended by expiry", len(terms), deaths.Load())
	if len(terms) == 0 {
		t.Fatal("nobody ever got the key")
	}
	if faults := check(terms); len(faults) > 0 {
		file := filepath.Join(t.ArtifactDir(), "history.json")
		if err := write(file, terms); err != nil {
			t.Error(err)
		}
		t.Fatalf("%d of %d terms are wrong, see %s; the first: %s", len(faults), len(terms), file, faults[0])
	}
}

// term is the term of a holder that released at the instant given, unless its lease may have ended before.
func (t *caseT) term(g grant, released time.Time) term {
	end := g.sure().Add(-t.cfg.Skew)
	if released.Before(end) {
		end = released
	}
	return term{Owner: g.req.Owner, Fence: g.Fence(), Start: g.answered, End: end}
}
