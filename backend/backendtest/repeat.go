package backendtest

import (
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

func repeatCases() []testCase {
	return []testCase{
		{
			name: "Repeat_IsGranted",
			rule: ruleIdempotence,
			says: "an attempt that is repeated with the token that holds the key succeeds, and both leases are one",
			run:  isGranted,
		},
		{
			name: "Repeat_KeepsTheFence",
			rule: ruleIdempotence,
			says: "an attempt that is repeated with the token that holds the key gets the same fence",
			run:  repeatKeepsTheFence,
		},
		{
			name: "Repeat_MovesTheEnd",
			rule: ruleIdempotence,
			says: "a repeated attempt moves the end to at least now+TTL",
			run:  repeatMovesTheEnd,
		},
		{
			name: "Repeat_NeverShortens",
			rule: ruleIdempotence,
			says: "a repeated attempt that arrives after a longer renewal moves the end to no earlier instant",
			run:  repeatNeverShortens,
		},
		{
			name: "Repeat_AfterReleaseIsRefused",
			rule: ruleIdempotence,
			says: "a token that was released opens no further term",
			run:  repeatAfterReleaseIsRefused,
		},
		{
			name: "Repeat_AfterALateReleaseIsRefused",
			rule: ruleIdempotence,
			says: "a token that was released after its lease had expired opens no further term",
			run:  repeatAfterALateReleaseIsRefused,
		},
	}
}

func isGranted(t *caseT) {
	a, b := t.pair()
	req := t.request("job", t.long())
	first := t.win(a, req)
	second := t.win(a, req)
	t.renewed(first, req.TTL)
	t.renewed(second, req.TTL)
	t.release(second, 0)
	t.lost(first)
	t.free(b, "job")
}

func repeatKeepsTheFence(t *caseT) {
	a, b := t.pair()
	req := t.request("job", t.long())
	first := t.win(a, req)
	for range 3 {
		if again := t.win(a, req); again.Fence() != first.Fence() {
			t.Fatalf("the repeated attempt has fence %d, want %d", again.Fence(), first.Fence())
		}
	}
	if h := t.inspect(b, "job"); h.Fence != first.Fence() {
		t.Errorf("Inspect has fence %d, want %d", h.Fence, first.Fence())
	}
}

func repeatMovesTheEnd(t *caseT) {
	a, b := t.pair()
	t.conclusive(func(key string) bool {
		req := t.request(key, t.ttl())
		first := t.win(a, req)
		t.pauseUntil(first.sent.Add(t.ttl() * 6 / 10))
		again, err := t.try(a, req)
		if time.Now().After(first.sure()) {
			return false
		}
		if err != nil {
			t.Fatalf("the repeated attempt: %v, want success", err)
		}
		t.taken(b, t.request(key, t.long()), again.sure())
		return true
	})
}

func repeatNeverShortens(t *caseT) {
	a, b := t.pair()
	t.needsFreeTTL()
	t.conclusive(func(key string) bool {
		req := t.request(key, t.ttl())
		first := t.win(a, req)
		sent := time.Now()
		err := first.Renew(t.Context(), 3*t.ttl())
		if errors.Is(err, backend.ErrLost) && time.Now().After(first.sure()) {
			return false
		}
		if err != nil {
			t.Fatalf("Renew: %v, want nil", err)
		}
		end := sent.Add(3 * t.ttl())
		_, err = t.try(a, req)
		if time.Now().After(end) {
			return false
		}
		if err != nil {
			t.Fatalf("the repeated attempt: %v, want success", err)
		}
		t.taken(b, t.request(key, t.long()), end)
		return true
	})
}

func repeatAfterReleaseIsRefused(t *caseT) {
	a, b := t.pair()
	for range 2 { // with a record that the release found new, and with an old one
		req := t.request("job", t.long())
		g := t.win(a, req)
		t.release(g, 0)
		t.spent(a, req)
		t.spent(b, req)
		t.free(b, "job")
	}
	t.win(b, t.request("job", t.long()))
}

func repeatAfterALateReleaseIsRefused(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.ttl()))
	t.freeAgain(a, g)
	t.release(g, 0)
	t.spent(a, g.req)
	t.free(b, "job")
	t.win(b, t.request("job", t.long()))
}

// needsFreeTTL skips the case if a renewal can only repeat the TTL of the acquisition.
func (t *caseT) needsFreeTTL() {
	if t.limits.FixedTTL {
		t.Skip("skipped: Limits.FixedTTL, so no renewal is shorter or longer than another")
	}
}
