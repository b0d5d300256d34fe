package backendtest

import "github.com/goleader/leader/backend"

func heldCases() []testCase {
	return []testCase{
		{
			name: "Held_IsAnOrdinaryAnswer",
			rule: ruleHeld,
			says: "a losing attempt returns ErrHeld, promptly",
			run:  isAnOrdinaryAnswer,
		},
		{
			name: "Held_NamesTheHolder",
			rule: ruleHeld,
			says: "a HeldError that names a holder names the right one",
			run:  namesTheHolder,
		},
		{
			name: "Held_ChangesNothing",
			rule: ruleHeld,
			says: "a losing attempt writes nothing",
			run:  changesNothing,
		},
	}
}

func isAnOrdinaryAnswer(t *caseT) {
	a, b := t.pair()
	t.win(a, t.request("job", t.long()))
	for _, d := range []backend.Driver{a, b} {
		t.promptly("TryAcquire of a held key returns", func() { t.refused(d, t.request("job", t.long())) })
	}
}

func namesTheHolder(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	for _, d := range []backend.Driver{a, b} {
		h := t.refused(d, t.request("job", t.long()))
		if h.Free() {
			continue // held, by whom is unknown
		}
		if h.Owner != g.req.Owner || h.Fence != g.Fence() || h.Kept {
			t.Errorf("HeldError has %+v, want owner %q, fence %d, not kept", h, g.req.Owner, g.Fence())
		}
		if seen := t.inspect(d, "job").Seen; h.Seen != seen {
			t.Errorf("HeldError has seen %q, Inspect %q, and nothing happened between", h.Seen, seen)
		}
	}
}

func changesNothing(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	before := t.inspect(a, "job")
	for range 3 {
		t.refused(a, t.request("job", t.long()))
		t.refused(b, t.request("job", t.long()))
	}
	after := t.inspect(a, "job")
	if t.limits.LookFirst {
		after.Seen = before.Seen // the driver says that a losing attempt writes
	}
	if !sameHolder(after, before) {
		t.Errorf("Inspect = %+v after losing attempts, want what it was: %+v", after, before)
	}
	t.renewed(g, t.long())
}
