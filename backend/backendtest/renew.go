package backendtest

import (
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

func renewCases() []testCase {
	return []testCase{
		{
			name: "Renew_MovesTheEnd",
			rule: ruleRenew,
			says: "a renewal moves the end to at least now+TTL",
			run:  renewMovesTheEnd,
		},
		{
			name: "Renew_EndsToo",
			rule: ruleRenew,
			says: "a renewed lease ends as well",
			run:  renewEndsToo,
		},
		{
			name: "Renew_NeverShortens",
			rule: ruleRenew,
			says: "a renewal moves the end to no earlier instant",
			run:  renewNeverShortens,
		},
		{
			name: "Renew_AfterExpiryIsLost",
			rule: ruleRenew,
			says: "a lease that has expired is not renewed, even if nobody took the key",
			run:  renewAfterExpiryIsLost,
		},
		{
			name: "Renew_AfterReleaseIsLost",
			rule: ruleRenew,
			says: "a lease that was released is not renewed, and no record is created",
			run:  renewAfterReleaseIsLost,
		},
		{
			name:  "Renew_AfterDeletionIsLost",
			rule:  ruleRenew,
			says:  "a lease whose record was deleted is not renewed, and no record is created",
			needs: needCorrupt,
			run:   renewAfterDeletionIsLost,
		},
		{
			name: "Renew_SparesTheSuccessor",
			rule: ruleRenew,
			says: "a lease that was taken over is lost, and its renewal does not touch the successor",
			run:  renewSparesTheSuccessor,
		},
	}
}

func renewMovesTheEnd(t *caseT) {
	a, b := t.pair()
	t.conclusive(func(key string) bool {
		g := t.win(a, t.request(key, t.ttl()))
		sure := g.sure()
		for range 2 {
			t.pauseUntil(sure.Add(-t.ttl() * 4 / 10))
			sent := time.Now()
			err := g.Renew(t.Context(), t.ttl())
			if time.Now().After(sure) {
				return false
			}
			if err != nil {
				t.Fatalf("Renew: %v, want nil", err)
			}
			sure = sent.Add(t.ttl())
		}
		t.taken(b, t.request(key, t.long()), sure)
		return true
	})
}

func renewEndsToo(t *caseT) {
	a, b := t.pair()
	t.conclusive(func(key string) bool {
		g := t.win(a, t.request(key, t.ttl()))
		var sure time.Time
		for range 3 { // at once, so that ends which add up would show
			sent := time.Now()
			err := g.Renew(t.Context(), t.ttl())
			if errors.Is(err, backend.ErrLost) && time.Now().After(g.sure()) {
				return false
			}
			if err != nil {
				t.Fatalf("Renew: %v, want nil", err)
			}
			sure = sent.Add(t.ttl())
		}
		t.taken(b, t.request(key, t.long()), sure)
		return true
	})
}

func renewNeverShortens(t *caseT) {
	a, b := t.pair()
	t.needsFreeTTL()
	t.conclusive(func(key string) bool {
		g := t.win(a, t.request(key, 3*t.ttl()))
		err := g.Renew(t.Context(), t.ttl())
		if time.Now().After(g.sure()) {
			return false
		}
		if err != nil {
			t.Fatalf("Renew: %v, want nil", err)
		}
		t.taken(b, t.request(key, t.long()), g.sure())
		return true
	})
}

func renewAfterExpiryIsLost(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.ttl()))
	t.freeAgain(a, g)
	t.lost(g)
	t.free(a, "job")
	t.free(b, "job")
	t.win(b, t.request("job", t.long()))
}

func renewAfterReleaseIsLost(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	t.release(g, 0)
	t.lost(g)
	t.free(a, "job")
	t.free(b, "job")
	t.win(b, t.request("job", t.long()))
}

func renewAfterDeletionIsLost(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	t.cfg.Corrupt(t, "job", Deleted)
	t.lost(g)
	t.free(a, "job")
	t.free(b, "job")
	t.win(b, t.request("job", t.long()))
}

func renewSparesTheSuccessor(t *caseT) {
	a, b := t.pair()
	old := t.win(a, t.request("job", t.ttl()))
	next := t.taken(b, t.request("job", t.long()), old.sure())
	before := t.inspect(b, "job")
	t.lost(old)
	t.unharmed(a, next, before)
}
