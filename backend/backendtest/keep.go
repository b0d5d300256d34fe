package backendtest

import (
	"errors"
	"io"
	"time"

	"github.com/goleader/leader/backend"
)

func keepCases() []testCase {
	return []testCase{
		{
			name: "Keep_HoldsTheKey",
			rule: ruleRelease,
			says: "a key that is kept is unavailable for at least that long",
			run:  keepHoldsTheKey,
		},
		{
			name: "Keep_Ends",
			rule: ruleRelease,
			says: "a key that is kept becomes free soon after, with a greater fence",
			run:  keepEnds,
		},
		{
			name: "Keep_IsShown",
			rule: ruleRelease,
			says: "a key that is kept shows as kept, with its last owner and fence",
			run:  keepIsShown,
		},
		{
			name: "Keep_IsSetAnew",
			rule: ruleRelease,
			says: "a repeated release sets keep anew and adds nothing to it",
			run:  keepIsSetAnew,
		},
		{
			name: "Keep_StaysAfterTheLeaseWouldHaveEnded",
			rule: ruleRelease,
			says: "a renewal, or a repeated release, after the lease's own end leaves the key kept",
			run:  keepStaysAfterTheLease,
		},
		{
			name: "Keep_EndsTheLease",
			rule: ruleRelease,
			says: "a lease that was released is over also while its key is kept, for its own token too",
			run:  keepEndsTheLease,
		},
		{
			name: "Keep_OutlivesTheClient",
			rule: ruleRelease,
			says: "a key that is kept stays so, and becomes free, without the client that released it",
			run:  keepOutlivesTheClient,
		},
	}
}

func keepHoldsTheKey(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	sent := time.Now()
	t.release(g, t.ttl())
	t.taken(b, t.request("job", t.long()), sent.Add(t.ttl()))
}

func keepEnds(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	sent := time.Now()
	t.release(g, t.ttl())
	next := t.taken(b, t.request("job", t.long()), sent)
	t.grown(g.Fence(), next)
}

func keepIsShown(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	t.release(g, t.long())
	for _, d := range []backend.Driver{a, b} {
		if h := t.inspect(d, "job"); !h.Kept || h.Owner != g.req.Owner || h.Fence != g.Fence() {
			t.Errorf("Inspect = %+v, want kept, owner %q, fence %d", h, g.req.Owner, g.Fence())
		}
		if h := t.refused(d, t.request("job", t.long())); !h.Free() && (!h.Kept || h.Fence != g.Fence()) {
			t.Errorf("HeldError has %+v, want kept, fence %d", h, g.Fence())
		}
	}
}

// keepIsSetAnew keeps for long first: what was added up would not end in time, and what stayed would not either.
func keepIsSetAnew(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	t.release(g, t.long())
	t.refused(b, t.request("job", t.long()))
	sent := time.Now()
	t.release(g, t.ttl())
	t.taken(b, t.request("job", t.long()), sent.Add(t.ttl()))
}

func keepStaysAfterTheLease(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.ttl()))
	t.release(g, t.long())
	t.pauseUntil(g.answered.Add(g.req.TTL + t.tick()))
	t.lost(g)
	t.refused(b, t.request("job", t.long()))
	t.release(g, t.long())
	t.refused(b, t.request("job", t.long()))
	if h := t.inspect(b, "job"); !h.Kept {
		t.Errorf("Inspect = %+v, want a kept key", h)
	}
}

func keepEndsTheLease(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	t.release(g, t.long())
	t.lost(g)
	_, err := t.try(a, g.req)
	if !errors.Is(err, backend.ErrLost) && !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("TryAcquire with the token of a kept key: %v, want ErrLost or ErrHeld", orSuccess(err))
	}
	if h := t.inspect(b, "job"); !h.Kept {
		t.Errorf("Inspect = %+v, want a kept key", h)
	}
}

func keepOutlivesTheClient(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	sent := time.Now()
	t.release(g, t.ttl())
	if c, ok := backend.As[io.Closer](a); ok {
		if err := c.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	t.taken(b, t.request("job", t.long()), sent.Add(t.ttl()))
}
