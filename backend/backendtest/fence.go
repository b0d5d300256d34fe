package backendtest

import (
	"time"

	"github.com/goleader/leader/backend"
)

func fenceCases() []testCase {
	return []testCase{
		{
			name: "Fence_GrowsByRelease",
			rule: ruleFence,
			says: "over 1,000 terms that end by release each fence is greater than all before",
			run:  growsByRelease,
		},
		{
			name: "Fence_GrowsThroughExpiry",
			rule: ruleFence,
			says: "over ten terms that end by expiry each fence is greater than all before",
			run:  growsThroughExpiry,
		},
		{
			name:  "Fence_GrowsAfterDeletion",
			rule:  ruleFence,
			says:  "a fence is greater than those before an operator deleted the record",
			needs: needCorrupt,
			run:   growsAfterDeletion,
		},
		{
			name: "Fence_IsConstant",
			rule: ruleFence,
			says: "the fence stays the same while the lease lives",
			run:  isConstant,
		},
		{
			name: "Fence_IsTheSameEverywhere",
			rule: ruleFence,
			says: "Inspect and HeldError show the fence of the lease",
			run:  isTheSameEverywhere,
		},
	}
}

func growsByRelease(t *caseT) {
	a, b := t.pair()
	var last uint64
	t.during(5*time.Second, 20, 1000, func(i int) {
		d := a
		if i%2 == 1 {
			d = b
		}
		g := t.win(d, t.request("job", t.long()))
		last = t.grown(last, g)
		t.release(g, 0)
	})
}

func growsThroughExpiry(t *caseT) {
	a, b := t.pair()
	holder := t.win(a, t.request("job", t.ttl()))
	last := holder.Fence()
	t.during(25*time.Second, 3, 10, func(i int) {
		d := b
		if i%2 == 1 {
			d = a
		}
		holder = t.taken(d, t.request("job", t.ttl()), holder.sure())
		last = t.grown(last, holder)
	})
}

func growsAfterDeletion(t *caseT) {
	a, b := t.pair()
	var last uint64
	for range 3 {
		held := t.win(a, t.request("job", t.long()))
		last = t.grown(last, held)
		t.cfg.Corrupt(t, "job", Deleted)
		next := t.win(b, t.request("job", t.long()))
		last = t.grown(last, next)
		t.release(next, 0)
		t.cfg.Corrupt(t, "job", Deleted)
	}
}

func isConstant(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	want := g.Fence()
	for range 3 {
		t.renewed(g, t.long())
		if g.Fence() != want {
			t.Fatalf("the lease has fence %d after a renewal, want %d", g.Fence(), want)
		}
		for _, d := range []backend.Driver{a, b} {
			if h := t.inspect(d, "job"); h.Fence != want {
				t.Fatalf("Inspect has fence %d after a renewal, want %d", h.Fence, want)
			}
		}
	}
}

func isTheSameEverywhere(t *caseT) {
	a, b := t.pair()
	for range 3 {
		g := t.win(a, t.request("job", t.long()))
		for _, d := range []backend.Driver{a, b} {
			if h := t.inspect(d, "job"); h.Fence != g.Fence() {
				t.Fatalf("Inspect has fence %d, the lease %d", h.Fence, g.Fence())
			}
			if h := t.refused(d, t.request("job", t.long())); !h.Free() && h.Fence != g.Fence() {
				t.Fatalf("HeldError has fence %d, the lease %d", h.Fence, g.Fence())
			}
		}
		t.release(g, 0)
	}
}

// grown checks that g's fence is greater than last, and returns it.
func (t *caseT) grown(last uint64, g grant) uint64 {
	t.Helper()
	if g.Fence() <= last {
		t.Fatalf("the fence is %d after %d, want a greater one", g.Fence(), last)
	}
	return g.Fence()
}

// during runs f up to most times, and at least least times however slow the store is; a slow one gets no more than the
// time given for the rest.
func (t *caseT) during(limit time.Duration, least, most int, f func(i int)) {
	t.Helper()
	end := time.Now().Add(limit)
	for i := range most {
		if i >= least && time.Now().After(end) {
			t.Logf("%d of %d rounds in %v", i, most, limit)
			return
		}
		f(i)
	}
}
