package backendtest

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	leakRounds = 1000
	leakLeast  = 100 // rounds for a slow store
	// leakSlack is how many goroutines a client may add for itself (its pool, its reader) after the warm-up.
	leakSlack = 10
)

func leakCases() []testCase {
	return []testCase{
		{
			name:  "Leaks_CyclesLeaveNoGoroutine",
			rule:  ruleContext,
			says:  "no goroutine remains of 1,000 terms",
			needs: needQuiet,
			run:   cyclesLeaveNoGoroutine,
		},
		{
			name:  "Leaks_LosingAttemptsLeaveNoGoroutine",
			rule:  ruleContext,
			says:  "no goroutine remains of 1,000 attempts that found the key held",
			needs: needQuiet,
			run:   losingAttemptsLeaveNoGoroutine,
		},
		{
			name:  "Leaks_CanceledAttemptsLeaveNothing",
			rule:  ruleContext,
			says:  "no goroutine and no lease remains of 1,000 attempts that were canceled on the way and abandoned",
			needs: needQuiet,
			run:   canceledAttemptsLeaveNothing,
		},
	}
}

func cyclesLeaveNoGoroutine(t *caseT) {
	d := t.open(1)[0]
	t.leavesNoGoroutine(func(int) {
		g := t.win(d, t.request("job", t.long()))
		t.renewed(g, t.long())
		t.release(g, 0)
	})
}

func losingAttemptsLeaveNoGoroutine(t *caseT) {
	a, b := t.pair()
	t.win(a, t.request("job", t.long()))
	t.leavesNoGoroutine(func(int) { t.refused(b, t.request("job", t.long())) })
}

// canceledAttemptsLeaveNothing takes the keys in turn: a key remembers the last token that was spent, and a store that is
// busy may come to a canceled request long after the call has returned.
func canceledAttemptsLeaveNothing(t *caseT) {
	a, b := t.pair()
	const keys = 32
	key := func(i int) string { return "job-" + strconv.Itoa(i%keys) }
	t.leavesNoGoroutine(func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		if i%4 == 0 {
			cancel() // a store in this process is too fast for the others
		}
		stop := time.AfterFunc(time.Duration(i%20)*50*time.Microsecond, cancel)
		req := t.request(key(i), t.long())
		lease, err := a.TryAcquire(ctx, req)
		stop.Stop()
		cancel()
		if err == nil {
			t.release(grant{Lease: lease, driver: a, req: req}, 0)
			return
		}
		if errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost) {
			t.Fatalf("TryAcquire of a free key with a canceled context: %v", err)
		}
		t.abandoned(a, req)
	})
	for i := range keys {
		t.free(b, key(i))
		t.win(b, t.request(key(i), t.long()))
	}
}

// leavesNoGoroutine runs round often, and waits until there are no more goroutines than after the first rounds.
func (t *caseT) leavesNoGoroutine(round func(i int)) {
	t.Helper()
	for i := range leakSlack {
		round(i)
	}
	before := t.settled()
	t.during(5*time.Second, leakLeast, leakRounds, round)
	for end := time.Now().Add(t.patience); runtime.NumGoroutine() > before+leakSlack; t.pause(t.tick()) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks())
		}
	}
}

// settled returns the number of goroutines once those of earlier cases have ended.
func (t *caseT) settled() int {
	least, looks := runtime.NumGoroutine(), 0
	for looks < 10 {
		t.pause(t.tick())
		looks++
		if now := runtime.NumGoroutine(); now < least {
			least, looks = now, 0
		}
	}
	return least
}
