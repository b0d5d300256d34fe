package backendtest

import "time"

func expiryCases() []testCase {
	return []testCase{
		{
			name: "Expiry_FreesWithoutHelp",
			rule: ruleExclusion,
			says: "an expired lease can be taken over without any help from its holder",
			run:  freesWithoutHelp,
		},
		{
			name: "Expiry_IsNeverEarly",
			rule: ruleTime,
			says: "a TTL that is finer than the store's granularity is rounded up",
			run:  isNeverEarly,
		},
		{
			name: "Expiry_IsFreeToInspect",
			rule: ruleTime,
			says: "Inspect shows an expired lease as free",
			run:  isFreeToInspect,
		},
	}
}

// freesWithoutHelp also finds attempts that prolong what they lose against, since it makes many.
func freesWithoutHelp(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.ttl()))
	t.taken(b, t.request("job", t.long()), g.sure())
}

func isNeverEarly(t *caseT) {
	a, b := t.pair()
	odd := t.ttl() + t.ttl()*7/10 + 999*time.Microsecond
	g := t.win(a, t.request("job", odd))
	t.taken(b, t.request("job", t.long()), g.sure())
}

func isFreeToInspect(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.ttl()))
	t.freeAgain(b, g)
	t.freeAgain(a, g)
}
