package backendtest

import (
	"fmt"
	"strings"

	"github.com/goleader/leader/backend"
)

func errorCases() []testCase {
	return []testCase{{
		name: "Errors_TellNoSecret",
		rule: ruleErrors,
		says: "no error and no Holder shows a token",
		run:  tellNoSecret,
	}}
}

func tellNoSecret(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	loser := t.request("job", t.long())
	secret := func(what string, shown any) {
		t.Helper()
		text := fmt.Sprintf("%v %+v", shown, shown)
		for _, token := range []string{g.req.Token, loser.Token} {
			if strings.Contains(text, token) {
				t.Errorf("%s shows a token: %s", what, text)
			}
		}
	}
	_, err := t.try(b, loser)
	secret("the error of a losing attempt", err)
	secret("the holder of a losing attempt", t.refused(b, loser))
	secret("Inspect", t.inspect(b, "job"))
	_, err = b.TryAcquire(t.canceled(), loser)
	secret("the error of a canceled attempt", err)
	bad := loser
	bad.TTL = -1
	_, err = b.TryAcquire(t.Context(), bad)
	secret("the error of a bad TTL", err)
	secret("the error of a canceled renewal", g.Renew(t.canceled(), t.long()))
	t.release(g, t.long())
	secret("Inspect of a kept key", t.inspect(b, "job"))
	secret("the error of a late renewal", g.Renew(t.Context(), t.long()))
	_, err = a.TryAcquire(t.Context(), g.req)
	secret("the error of a spent token", err)
	for _, d := range []backend.Driver{a, b} {
		secret("Name", d.Name())
	}
	tellNoSecretByAbility(t, a, g, loser, secret)
}

// tellNoSecretByAbility asks the abilities that the driver offers about a kept key.
func tellNoSecretByAbility(t *caseT, d backend.Driver, g grant, loser backend.Request, secret func(string, any)) {
	t.Helper()
	if s, ok := backend.As[backend.SlotAcquirer](d); ok {
		if _, _, err := s.TryAcquireSlot(t.Context(), loser, 1); err != nil {
			t.Fatalf("TryAcquireSlot: %v, want success", err)
		}
		for _, req := range []backend.Request{loser, t.request("job", t.long())} {
			_, _, err := s.TryAcquireSlot(t.canceled(), req, 1)
			secret("the error of a canceled attempt on a group", err)
		}
		secret("the holder of a full group", t.noSlot(d, "job", 1))
	}
	if l, ok := backend.As[backend.Lister](d); ok {
		secret("List", t.list(l, "", true))
	}
	if br, ok := backend.As[backend.Breaker](d); ok {
		secret("the error of a refused Break", br.Break(t.Context(), "job", g.Fence()+1))
	}
}
