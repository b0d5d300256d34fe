package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

func breakerCases() []testCase {
	return []testCase{
		{
			name: "Break_EndsTheLease",
			rule: abilityBreaker,
			says: "a broken lease is over: its holder's renewal is ErrLost, its release nil, and the key is free at once",
			run:  breakEndsTheLease,
		},
		{
			name: "Break_ComparesTheFence",
			rule: abilityBreaker,
			says: "Break under another fence is ErrConflict and changes nothing",
			run:  breakComparesTheFence,
		},
		{
			name: "Break_SparesTheSuccessor",
			rule: abilityBreaker,
			says: "Break under the fence of an earlier lease is ErrConflict and leaves the successor alone",
			run:  breakSparesTheSuccessor,
		},
		{
			name: "Break_OfAFreeKeyIsAConflict",
			rule: abilityBreaker,
			says: "Break of a key that was never taken, or is free again, is ErrConflict and takes nothing",
			run:  breakOfAFreeKeyIsAConflict,
		},
		{
			name: "Break_FreesAKeptKey",
			rule: abilityBreaker,
			says: "Break ends what is kept of a released lease",
			run:  breakFreesAKeptKey,
		},
		{
			name: "Break_SpendsTheToken",
			rule: abilityBreaker,
			says: "the token of a broken lease opens no further term",
			run:  breakSpendsTheToken,
		},
		{
			name: "Break_GrowsTheFence",
			rule: abilityBreaker,
			says: "the next fence is greater than that of the broken lease",
			run:  breakGrowsTheFence,
		},
		{
			name: "Break_WakesWaiters",
			rule: abilityBreaker,
			says: "those who wait for the key are woken",
			run:  breakWakesWaiters,
		},
		{
			name: "Break_FreesASlot",
			rule: abilityBreaker,
			says: "the key of a slot can be broken, which frees that slot alone",
			run:  breakFreesASlot,
		},
		{
			name: "Break_EndsWithTheContext",
			rule: abilityBreaker,
			says: "a Break whose context is over returns an error that wraps the context's and changes nothing",
			run:  breakEndsWithTheContext,
		},
	}
}

// breakPair returns two clients of a new store, of which the second breaks.
func (t *caseT) breakPair() (a, b backend.Driver, br backend.Breaker) {
	t.Helper()
	a, b = t.pair()
	return a, b, ability[backend.Breaker](t, b)
}

// broken breaks a lease and must succeed.
func (t *caseT) broken(br backend.Breaker, g grant) {
	t.Helper()
	if err := br.Break(t.Context(), g.req.Key, g.Fence()); err != nil {
		t.Fatalf("Break(%q, %d): %v, want nil", g.req.Key, g.Fence(), err)
	}
}

// notBroken breaks and must be refused.
func (t *caseT) notBroken(br backend.Breaker, key string, fence uint64) {
	t.Helper()
	if err := br.Break(t.Context(), key, fence); !errors.Is(err, backend.ErrConflict) {
		t.Fatalf("Break(%q, %d): %v, want ErrConflict", key, fence, orSuccess(err))
	}
}

func breakEndsTheLease(t *caseT) {
	a, b, br := t.breakPair()
	for range 3 {
		g := t.win(a, t.request("job", t.long()))
		other := t.win(a, t.request("other", t.long()))
		t.broken(br, g)
		t.lost(g)
		t.free(a, "job")
		t.notBroken(br, "job", g.Fence())
		next := t.win(b, t.request("job", t.long()))
		before := t.inspect(b, "job")
		t.release(g, 0)
		t.release(g, t.long())
		t.lost(g)
		t.unharmed(a, next, before)
		t.renewed(other, t.long())
		t.release(next, 0)
		t.release(other, 0)
	}
}

func breakComparesTheFence(t *caseT) {
	a, b, br := t.breakPair()
	g := t.win(a, t.request("job", t.long()))
	other := t.win(a, t.request("other", t.long()))
	before := t.inspect(b, "job")
	for _, fence := range []uint64{0, 1, g.Fence() - 1, g.Fence() + 1, other.Fence()} {
		if fence == g.Fence() {
			continue // fences are of one key
		}
		t.notBroken(br, "job", fence)
		t.unharmed(b, g, before)
	}
	kept := t.win(a, t.request("kept", t.long()))
	t.release(kept, t.long())
	t.notBroken(br, "kept", kept.Fence()+1)
	t.refused(b, t.request("kept", t.long()))
}

func breakSparesTheSuccessor(t *caseT) {
	a, b, br := t.breakPair()
	released := t.win(a, t.request("job", t.ttl()))
	t.release(released, 0)
	expired := t.win(a, t.request("job", t.ttl()))
	next := t.taken(b, t.request("job", t.long()), expired.sure())
	before := t.inspect(b, "job")
	for _, old := range []grant{released, expired} {
		t.notBroken(br, "job", old.Fence())
		t.unharmed(a, next, before)
	}
}

func breakOfAFreeKeyIsAConflict(t *caseT) {
	a, b, br := t.breakPair()
	for _, fence := range []uint64{0, 1, 1 << 62} {
		t.notBroken(br, "job", fence)
	}
	t.free(b, "job")
	g := t.win(a, t.request("job", t.long()))
	t.release(g, 0)
	t.notBroken(br, "job", g.Fence())
	t.notBroken(br, "job", 0)
	g = t.win(a, t.request("job", t.ttl()))
	t.freeAgain(b, g)
	t.notBroken(br, "job", g.Fence())
	t.free(b, "job")
	t.win(a, t.request("job", t.long()))
}

func breakFreesAKeptKey(t *caseT) {
	a, b, br := t.breakPair()
	g := t.win(a, t.request("job", t.long()))
	t.release(g, t.long())
	t.refused(b, t.request("job", t.long()))
	t.broken(br, g)
	t.free(a, "job")
	t.spent(a, g.req)
	next := t.win(a, t.request("job", t.long()))
	t.grown(g.Fence(), next)
	before := t.inspect(b, "job")
	t.release(g, t.long())
	t.unharmed(b, next, before)
}

func breakSpendsTheToken(t *caseT) {
	a, b, br := t.breakPair()
	for range 2 { // with a record that was new, and with an old one
		g := t.win(a, t.request("job", t.long()))
		t.broken(br, g)
		t.spent(a, g.req)
		t.spent(b, g.req)
		t.free(b, "job")
	}
	t.win(a, t.request("job", t.long()))
}

func breakGrowsTheFence(t *caseT) {
	a, b, br := t.breakPair()
	var last uint64
	t.during(5*time.Second, 10, 200, func(i int) {
		d := a
		if i%2 == 1 {
			d = b
		}
		g := t.win(d, t.request("job", t.long()))
		last = t.grown(last, g)
		t.broken(br, g)
	})
}

func breakWakesWaiters(t *caseT) {
	a, b, br := t.breakPair()
	for _, d := range []backend.Driver{b, a} {
		w := t.waiter(d)
		for i := range 5 {
			g := t.win(a, t.request("job", t.long()))
			wait := t.woken(w, t.seen(d, i%2 == 0))
			t.pause(time.Duration(i) * time.Millisecond)
			t.broken(br, g)
			wait()
		}
	}
}

func breakFreesASlot(t *caseT) {
	a, b := t.slotPair()
	br := ability[backend.Breaker](t, b)
	const n = 2
	held := t.fill(a, b, "job", n)
	for i, g := range held {
		t.broken(br, g.grant)
		t.lost(g.grant)
		t.spentSlot(a, g.asked, n)
		for j, other := range held {
			if j != i {
				t.renewed(other.grant, t.long())
			}
		}
		held[i] = t.takeSlot(a, t.request("job", t.long()), n)
		if held[i].slot != g.slot {
			t.Fatalf("slot %d was given, want %d, which was broken", held[i].slot, g.slot)
		}
		t.grown(g.Fence(), held[i].grant)
		t.noSlot(b, "job", n)
	}
}

func breakEndsWithTheContext(t *caseT) {
	a, b, br := t.breakPair()
	g := t.win(a, t.request("job", t.long()))
	before := t.inspect(b, "job")
	t.wraps("Break", br.Break(t.canceled(), "job", g.Fence()), context.Canceled)
	t.unharmed(b, g, before)
}
