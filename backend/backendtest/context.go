package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

func contextCases() []testCase {
	return []testCase{
		{
			name: "Context_EndsAnAttempt",
			rule: ruleContext,
			says: "an attempt whose context is over returns an error that wraps the context's",
			run:  contextEndsAnAttempt,
		},
		{
			name: "Context_EndsEveryCall",
			rule: ruleContext,
			says: "each call whose context is over returns an error that wraps the context's, not one about the lease",
			run:  contextEndsEveryCall,
		},
		{
			name: "Context_CutsShortWithoutAnAnswer",
			rule: ruleContext,
			says: "a renewal or release that its context cuts short, at whatever point, is not answered as if it were not",
			run:  contextCutsShort,
		},
		{
			name: "Context_LeavesNoRecord",
			rule: ruleContext,
			says: "an attempt whose context was over from the start takes nothing",
			run:  contextLeavesNoRecord,
		},
		{
			name: "Context_IsOfTheAttemptAlone",
			rule: ruleContext,
			says: "a lease outlives the context of the attempt that won it",
			run:  contextIsOfTheAttemptAlone,
		},
	}
}

func contextEndsAnAttempt(t *caseT) {
	d := t.open(1)[0]
	_, err := d.TryAcquire(t.canceled(), t.request("job", t.ttl()))
	t.wraps("TryAcquire", err, context.Canceled)
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = d.TryAcquire(expired, t.request("job", t.ttl()))
	t.wraps("TryAcquire", err, context.DeadlineExceeded)
}

func contextEndsEveryCall(t *caseT) {
	d := t.open(1)[0]
	g := t.win(d, t.request("job", t.long()))
	over := t.canceled()
	_, err := d.Inspect(over, "job")
	t.wraps("Inspect", err, context.Canceled)
	t.wraps("Abandon", d.Abandon(over, t.request("job", t.long())), context.Canceled)
	t.wraps("Renew", g.Renew(over, t.long()), context.Canceled)
	t.renewed(g, t.long())
	t.wraps("Release", g.Release(over, 0), context.Canceled)
	t.release(g, 0)
}

// contextCutsShort ends contexts at points from the beginning of a call to twice the time that it takes.
func contextCutsShort(t *caseT) {
	a, b := t.pair()
	const cuts = 40
	g := t.win(a, t.request("job", t.long()))
	began := time.Now()
	t.renewed(g, t.long())
	step := 2 * time.Since(began) / cuts
	for i := range cuts {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*step)
		if err := g.Renew(ctx, t.long()); errors.Is(err, backend.ErrLost) {
			t.Fatalf("Renew with a context of %v: %v, and the lease is not", time.Duration(i)*step, err)
		}
		cancel()
	}
	t.renewed(g, t.long())
	for i := range cuts {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*step)
		err := g.Release(ctx, 0)
		cancel()
		switch {
		case errors.Is(err, backend.ErrLost):
			t.Fatalf("Release with a context of %v: %v", time.Duration(i)*step, err)
		case err == nil:
			t.free(b, "job")
		}
		t.release(g, 0)
		g = t.win(a, t.request("job", t.long()))
	}
}

// wraps checks the error of a call whose context was over.
func (t *caseT) wraps(call string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || errors.Is(err, backend.ErrLost) || errors.Is(err, backend.ErrHeld) {
		t.Errorf("%s with a context that is over: %v, want an error that wraps %q", call, orSuccess(err), want)
	}
}

func contextLeavesNoRecord(t *caseT) {
	a, b := t.pair()
	for range 3 {
		if _, err := a.TryAcquire(t.canceled(), t.request("job", t.long())); err == nil {
			t.Error("TryAcquire with a context that is over succeeded")
		}
		t.free(b, "job")
	}
	t.win(b, t.request("job", t.long()))
}

func contextIsOfTheAttemptAlone(t *caseT) {
	a, b := t.pair()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := t.request("job", t.long())
	lease, err := a.TryAcquire(ctx, req)
	if err != nil {
		t.Fatalf("TryAcquire: %v, want success", err)
	}
	cancel()
	g := grant{Lease: lease, driver: a, req: req}
	for range 3 { // what follows a context does so within a moment
		t.refused(b, t.request("job", t.long()))
		t.renewed(g, t.long())
		t.pause(t.tick())
	}
	t.release(g, 0)
	t.free(b, "job")
}
