package backendtest

import "github.com/goleader/leader/backend"

func abandonCases() []testCase {
	return []testCase{
		{
			name: "Abandon_FreesItsOwn",
			rule: ruleIdempotence,
			says: "Abandon frees the key if the token holds it, which is over then",
			run:  abandonFreesItsOwn,
		},
		{
			name: "Abandon_SparesAnother",
			rule: ruleIdempotence,
			says: "Abandon never touches the lease of another token, and returns nil",
			run:  abandonSparesAnother,
		},
		{
			name: "Abandon_OfNothingIsNil",
			rule: ruleIdempotence,
			says: "Abandon returns nil when nothing is left to do",
			run:  abandonOfNothingIsNil,
		},
		{
			name: "Abandon_RefusesARepeat",
			rule: ruleIdempotence,
			says: "a token that was abandoned while it held the key opens no further term",
			run:  abandonRefusesARepeat,
		},
		{
			name: "Abandon_RefusesALateAttempt",
			rule: ruleIdempotence,
			says: "an attempt that arrives after it was abandoned opens no term",
			run:  abandonRefusesALateAttempt,
		},
		{
			name: "Abandon_RefusesALateAttemptAfterExpiry",
			rule: ruleIdempotence,
			says: "an attempt that arrives after it was abandoned opens no term where another's lease had ended by itself",
			run:  abandonRefusesALateAttemptAfterExpiry,
		},
	}
}

func abandonFreesItsOwn(t *caseT) {
	a, b := t.pair()
	req := t.request("job", t.long())
	g := t.win(a, req)
	t.abandoned(a, req)
	t.lost(g)
	t.free(b, "job")
	next := t.win(b, t.request("job", t.long()))
	if next.Fence() <= g.Fence() {
		t.Errorf("the next fence is %d, want more than %d", next.Fence(), g.Fence())
	}
}

func abandonSparesAnother(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	before := t.inspect(a, "job")
	same := t.request("job", t.long())
	same.Owner = g.req.Owner
	for _, d := range []backend.Driver{a, b} {
		t.abandoned(d, t.request("job", t.long()))
		t.abandoned(d, same)
	}
	t.unharmed(b, g, before)
}

func abandonOfNothingIsNil(t *caseT) {
	a, b := t.pair()
	req := t.request("job", t.long())
	t.abandoned(a, req) // the key was never taken
	t.abandoned(b, req) // repeated
	t.free(a, "job")
	g := t.win(a, t.request("job", t.long()))
	t.release(g, 0)
	t.abandoned(a, g.req) // already released
	t.free(b, "job")
}

func abandonRefusesARepeat(t *caseT) {
	a, b := t.pair()
	for range 2 { // with a record that Abandon found new, and with an old one
		req := t.request("job", t.long())
		t.win(a, req)
		t.abandoned(a, req)
		t.spent(a, req)
		t.spent(b, req)
		t.free(b, "job")
	}
	t.win(b, t.request("job", t.long()))
}

func abandonRefusesALateAttempt(t *caseT) {
	a, b := t.pair()
	for range 2 { // on a key that was never taken, and on one that was released
		late := t.request("job", t.long())
		t.abandoned(a, late)
		t.spent(a, late)
		t.spent(b, late)
		t.free(b, "job")
		t.release(t.win(b, t.request("job", t.long())), 0)
	}
}

func abandonRefusesALateAttemptAfterExpiry(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.ttl()))
	t.freeAgain(a, g)
	t.freeAgain(b, g)
	late := t.request("job", t.long())
	t.abandoned(a, late)
	t.spent(a, late)
	t.spent(b, late)
	t.free(b, "job")
	t.lost(g)
	t.win(b, t.request("job", t.long()))
}

// abandoned gives up an attempt and must succeed.
func (t *caseT) abandoned(d backend.Driver, req backend.Request) {
	t.Helper()
	if err := d.Abandon(t.Context(), req); err != nil {
		t.Fatalf("Abandon(%q) by %s: %v, want nil", req.Key, req.Owner, err)
	}
}
