package backendtest

import (
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

func releaseCases() []testCase {
	return []testCase{
		{
			name: "Release_Frees",
			rule: ruleRelease,
			says: "a released key can be had at once, by every client",
			run:  releaseFrees,
		},
		{
			name: "Release_IsIdempotent",
			rule: ruleRelease,
			says: "a repeated release returns nil",
			run:  releaseIsIdempotent,
		},
		{
			name: "Release_AfterExpiryIsNil",
			rule: ruleRelease,
			says: "the release of a lease that has expired returns nil, and keeps nothing",
			run:  releaseAfterExpiryIsNil,
		},
		{
			name:  "Release_AfterDeletionIsNil",
			rule:  ruleRelease,
			says:  "the release of a lease whose record was deleted returns nil, and creates none that holds the key",
			needs: needCorrupt,
			run:   releaseAfterDeletionIsNil,
		},
		{
			name: "Release_SparesTheSuccessor",
			rule: ruleRelease,
			says: "the release of a lease that was taken over returns nil and does not touch the successor",
			run:  releaseSparesTheSuccessor,
		},
		{
			name: "Release_ComparesTheToken",
			rule: ruleRelease,
			says: "a repeated release does not touch a successor of the same owner on the same client",
			run:  releaseComparesTheToken,
		},
		{
			name: "Release_KeepsNoSuccessor",
			rule: ruleRelease,
			says: "a late release that asks to keep the key neither ends nor shortens a successor's lease",
			run:  releaseKeepsNoSuccessor,
		},
		{
			name: "Release_OfARepeatSparesTheSuccessor",
			rule: ruleRelease,
			says: "of two clients that have a lease by the same token, the later release does not touch a successor",
			run:  releaseOfARepeatSparesTheSuccessor,
		},
	}
}

func releaseFrees(t *caseT) {
	a, b := t.pair()
	for _, next := range []backend.Driver{b, a} {
		g := t.win(a, t.request("job", t.long()))
		t.release(g, 0)
		t.free(a, "job")
		t.free(b, "job")
		t.release(t.win(next, t.request("job", t.long())), 0)
	}
}

func releaseIsIdempotent(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	for range 3 {
		t.release(g, 0)
	}
	t.free(b, "job")
}

func releaseAfterExpiryIsNil(t *caseT) {
	a, b := t.pair()
	for _, keep := range []time.Duration{0, t.long()} {
		g := t.win(a, t.request("job", t.ttl()))
		t.freeAgain(a, g)
		t.release(g, keep)
		t.free(b, "job")
		t.release(t.win(b, t.request("job", t.long())), 0)
	}
}

func releaseAfterDeletionIsNil(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	t.cfg.Corrupt(t, "job", Deleted)
	t.release(g, 0)
	t.release(g, 0)
	t.free(b, "job")
	t.win(b, t.request("job", t.long()))
}

func releaseSparesTheSuccessor(t *caseT) {
	a, b := t.pair()
	old := t.win(a, t.request("job", t.ttl()))
	next := t.taken(b, t.request("job", t.long()), old.sure())
	before := t.inspect(b, "job")
	t.release(old, 0)
	t.unharmed(a, next, before)
}

func releaseComparesTheToken(t *caseT) {
	a, b := t.pair()
	old := t.win(a, t.request("job", t.long()))
	t.release(old, 0)
	req := t.request("job", t.long())
	req.Owner = old.req.Owner
	next := t.win(a, req)
	before := t.inspect(b, "job")
	t.release(old, 0)
	t.unharmed(b, next, before)
}

func releaseKeepsNoSuccessor(t *caseT) {
	a, b := t.pair()
	old := t.win(a, t.request("job", t.long()))
	t.release(old, 0)
	next := t.win(b, t.request("job", t.long()))
	before := t.inspect(b, "job")
	t.release(old, t.ttl())
	t.unharmed(a, next, before)
}

func releaseOfARepeatSparesTheSuccessor(t *caseT) {
	a, b := t.pair()
	for _, keep := range []time.Duration{0, t.long()} {
		req := t.request("job", t.long())
		first := t.win(a, req)
		second, err := t.try(b, req)
		switch {
		case errors.Is(err, backend.ErrHeld): // where the client counts, too
			second = t.win(a, req)
		case err != nil:
			t.Fatalf("TryAcquire with the token that holds the key: %v", err)
		}
		late := second
		t.release(first, 0)
		if h := t.inspect(a, "job"); !h.Free() { // it has become the second client's alone
			t.release(second, 0)
			late = first
		}
		next := t.win(a, t.request("job", t.long()))
		before := t.inspect(b, "job")
		t.release(late, keep)
		t.unharmed(b, next, before)
		t.release(next, 0)
	}
}
