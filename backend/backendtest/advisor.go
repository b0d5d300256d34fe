package backendtest

import (
	"errors"
	"strings"

	"github.com/goleader/leader/backend"
)

func advisorCases() []testCase {
	return []testCase{
		{
			name: "Advise_Answers",
			rule: abilityAdvisor,
			says: "Advise looks at the store under test without an error, and each warning is a line of words",
			run:  adviseAnswers,
		},
		{
			name: "Advise_TellsNoSecret",
			rule: abilityAdvisor,
			says: "no warning shows a token",
			run:  adviseTellsNoSecret,
		},
		{
			name: "Advise_EndsWithTheContext",
			rule: abilityAdvisor,
			says: "Advise with a context that is over returns at once, with an error, if any, that wraps the context's",
			run:  adviseEndsWithTheContext,
		},
	}
}

func (t *caseT) advice(d backend.Driver) []string {
	t.Helper()
	warnings, err := ability[backend.Advisor](t, d).Advise(t.Context())
	if err != nil {
		t.Fatalf("Advise: %v, want nil", err)
	}
	return warnings
}

func adviseAnswers(t *caseT) {
	a, b := t.pair()
	for _, d := range []backend.Driver{a, b} {
		for _, warning := range t.advice(d) {
			if strings.TrimSpace(warning) == "" || strings.Contains(warning, "\n") {
				t.Errorf("Advise warns %q, want a line of words", warning)
			}
			t.Logf("Advise: %s", warning)
		}
	}
}

func adviseTellsNoSecret(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	for _, d := range []backend.Driver{a, b} {
		if text := strings.Join(t.advice(d), " "); strings.Contains(text, g.req.Token) {
			t.Errorf("Advise shows a token: %s", text)
		}
	}
}

func adviseEndsWithTheContext(t *caseT) {
	d := t.open(1)[0]
	ad := ability[backend.Advisor](t, d)
	over := t.canceled()
	t.promptly("Advise with a context that is over returns", func() {
		if _, err := ad.Advise(over); err != nil && !errors.Is(err, over.Err()) {
			t.Errorf("Advise with a context that is over: %v, want an error that wraps %q", err, over.Err())
		}
	})
}
