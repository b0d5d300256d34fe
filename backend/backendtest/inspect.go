package backendtest

import (
	"maps"
	"time"

	"github.com/goleader/leader/backend"
)

func inspectCases() []testCase {
	return []testCase{
		{
			name: "Inspect_ShowsAFreeKey",
			rule: ruleHeld,
			says: "a key that was never taken, and one that was released, has the zero Holder",
			run:  showsAFreeKey,
		},
		{
			name: "Inspect_ShowsOwnerAndMetadata",
			rule: ruleFormat,
			says: "owner and metadata come back as they were given, to every client",
			run:  showsOwnerAndMetadata,
		},
		{
			name: "Inspect_OwnsItsMetadata",
			rule: ruleConcurrency,
			says: "the maps of a Request and of a Holder are not shared with the driver",
			run:  ownsItsMetadata,
		},
		{
			name: "Inspect_ShowsTheTerm",
			rule: ruleTime,
			says: "Since is the acquisition, which a renewal does not move, and Remaining counts down to the end",
			run:  showsTheTerm,
		},
		{
			name: "Inspect_ChangesNothing",
			rule: ruleHeld,
			says: "Inspect writes nothing",
			run:  inspectChangesNothing,
		},
	}
}

func showsAFreeKey(t *caseT) {
	a, b := t.pair()
	t.free(a, "job")
	g := t.win(a, t.request("job", t.long()))
	t.release(g, 0)
	for _, d := range []backend.Driver{a, b} {
		t.free(d, "job")
		if h := t.inspect(d, "job"); h.Metadata != nil || !h.Since.IsZero() {
			t.Errorf("Inspect of a released key = %+v, want the zero Holder", h)
		}
	}
}

func showsOwnerAndMetadata(t *caseT) {
	a, b := t.pair()
	owners := []string{"node-1", `nö"de' \ {7} %s 日本 🗝`, " spaced ", ""}
	for _, metadata := range []map[string]string{nil, {
		"zone": "a", "": "empty key", "empty": "", `quo"te'`: `\"'` + "`", "ünï 日本": "🗝 é", "lines": "a\nb\tc",
		"json": `{"a":[1]}`, "sql": "'; --", "format": "%s%d", "number": "007", "equals": "a=b&c,d;e",
	}} {
		for _, owner := range owners {
			req := t.request("job", t.long())
			req.Owner, req.Metadata = owner, metadata
			g := t.win(a, req)
			for _, d := range []backend.Driver{a, b} {
				h := t.inspect(d, "job")
				if h.Owner != owner || h.Kept || h.Fence != g.Fence() || !maps.Equal(h.Metadata, metadata) {
					t.Fatalf("Inspect = %+v, want owner %q, fence %d, metadata %q", h, owner, g.Fence(), metadata)
				}
			}
			t.release(g, 0)
		}
	}
}

func ownsItsMetadata(t *caseT) {
	a, _ := t.pair()
	req := t.request("job", t.long())
	t.win(a, req)
	want := maps.Clone(req.Metadata)
	req.Metadata["zone"] = "changed by the caller of TryAcquire"
	first := t.inspect(a, "job")
	if !maps.Equal(first.Metadata, want) {
		t.Errorf("metadata is %q after the request's map was changed, want %q", first.Metadata, want)
	}
	if first.Metadata != nil {
		first.Metadata["zone"] = "changed by the caller of Inspect"
	}
	if again := t.inspect(a, "job"); !maps.Equal(again.Metadata, want) {
		t.Errorf("metadata is %q after an earlier answer was changed, want %q", again.Metadata, want)
	}
}

func showsTheTerm(t *caseT) {
	a, b := t.pair()
	ttl := t.long()
	g := t.win(a, t.request("job", ttl))
	first := t.inspect(b, "job")
	t.plausible(first.Remaining, g.sent, ttl)
	t.pause(t.ttl() / 4) // for a Since that moves to differ at any granularity that matters
	sent := time.Now()
	t.renewed(g, ttl)
	second := t.inspect(b, "job")
	t.plausible(second.Remaining, sent, ttl)
	if first.Since.IsZero() || !second.Since.Equal(first.Since) {
		t.Errorf("Since is %v, and %v after a renewal, want one instant", first.Since, second.Since)
	}
}

// plausible checks what Inspect said just now of a lease that was asked for at sent. A store may round up.
func (t *caseT) plausible(remaining time.Duration, sent time.Time, ttl time.Duration) {
	t.Helper()
	if remaining == 0 {
		return // unknown
	}
	low := ttl - time.Since(sent) - t.cfg.Skew
	high := ttl + time.Second + t.limits.Late + t.cfg.Skew
	if remaining < low || remaining > high {
		t.Errorf("Remaining is %v, want %v to %v", remaining, low, high)
	}
}

func inspectChangesNothing(t *caseT) {
	a, b := t.pair()
	t.free(a, "job")
	g := t.win(a, t.request("job", t.long()))
	before := t.inspect(a, "job")
	t.inspect(b, "job")
	t.unharmed(b, g, before)
}
