package backendtest

import "github.com/goleader/leader/backend"

func exclusionCases() []testCase {
	return []testCase{
		{
			name: "Exclusion_RefusesASecondToken",
			rule: ruleExclusion,
			says: "while a token has the key, no other gets it, from any client",
			run:  refusesASecondToken,
		},
		{
			name: "Exclusion_RefusesTheSameOwner",
			rule: ruleExclusion,
			says: "the token decides who holds the key, not the owner or the client",
			run:  refusesTheSameOwner,
		},
		{
			name: "Exclusion_IsPerKey",
			rule: ruleExclusion,
			says: "holding one key leaves the others free",
			run:  isPerKey,
		},
	}
}

func refusesASecondToken(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	for _, d := range []backend.Driver{a, b} {
		t.refused(d, t.request("job", t.long()))
		if h := t.inspect(d, "job"); h.Owner != g.req.Owner || h.Fence != g.Fence() {
			t.Errorf("Inspect = %+v, want owner %q, fence %d", h, g.req.Owner, g.Fence())
		}
	}
	t.renewed(g, t.long())
}

func refusesTheSameOwner(t *caseT) {
	a, _ := t.pair()
	g := t.win(a, t.request("job", t.long()))
	again := t.request("job", t.long())
	again.Owner = g.req.Owner
	t.refused(a, again)
}

func isPerKey(t *caseT) {
	a, b := t.pair()
	first := t.win(a, t.request("one", t.long()))
	second := t.win(a, t.request("two", t.long()))
	t.release(first, 0)
	t.free(b, "one")
	t.refused(b, t.request("two", t.long()))
	t.renewed(second, t.long())
}
