package backendtest

import (
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
)

// slotEndCases are about what frees a slot, and what must not.
func slotEndCases() []testCase {
	return []testCase{
		{
			name: "Slots_ReleaseTwiceFreesOne",
			rule: abilitySlotAcquirer,
			says: "a repeated release of a slot neither touches its next holder nor makes room for another",
			run:  slotsReleaseTwiceFreesOne,
		},
		{
			name: "Slots_LateReleaseFreesNone",
			rule: abilitySlotAcquirer,
			says: "the release of a slot that has expired makes no room beyond the slot itself",
			run:  slotsLateReleaseFreesNone,
		},
		{
			name: "Slots_StaleReleaseFreesNone",
			rule: abilitySlotAcquirer,
			says: "the release of a slot that was taken over spares the successor and makes no room",
			run:  slotsStaleReleaseFreesNone,
		},
		{
			name: "Slots_MixTTLs",
			rule: abilitySlotAcquirer,
			says: "each slot ends by its own TTL: a shorter lease ends no neighbour and a longer one prolongs none",
			run:  slotsMixTTLs,
		},
		{
			name: "Slots_RenewAlone",
			rule: abilitySlotAcquirer,
			says: "a renewal moves the end of its own slot alone",
			run:  slotsRenewAlone,
		},
		{
			name: "Slots_FollowN",
			rule: abilitySlotAcquirer,
			says: "a larger n sees the slots of a smaller one and adds to them; a smaller one does not look at higher slots",
			run:  slotsFollowN,
		},
		{
			name: "Slots_MayBeKept",
			rule: abilitySlotAcquirer,
			says: "a slot that is released with keep stays taken for that long, by nobody, and is free after it",
			run:  slotsMayBeKept,
		},
		{
			name: "Slots_RefuseASpentToken",
			rule: abilitySlotAcquirer,
			says: "the last spent token of any slot gets no other slot either",
			run:  slotsRefuseASpentToken,
		},
		{
			name: "Slots_AbandonFreesItsOwn",
			rule: abilitySlotAcquirer,
			says: "Abandon of each slot's key frees the slot of the token, spends it, and spares the neighbours",
			run:  slotsAbandonFreesItsOwn,
		},
		{
			name: "Slots_RefuseALateAttempt",
			rule: abilitySlotAcquirer,
			says: "an attempt that arrives after it was abandoned on each slot's key gets no slot",
			run:  slotsRefuseALateAttempt,
		},
	}
}

func slotsReleaseTwiceFreesOne(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	held := t.fill(a, b, "job", n)
	t.release(held[0].grant, 0)
	t.release(held[0].grant, 0)
	next := t.takeSlot(b, t.request("job", t.long()), n)
	t.noSlot(a, "job", n)
	before := t.inspect(b, next.req.Key)
	t.release(held[0].grant, 0)
	t.unharmed(a, next.grant, before)
	t.noSlot(b, "job", n)
	t.renewed(held[1].grant, t.long())
}

func slotsLateReleaseFreesNone(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	neighbour := t.takeSlot(a, t.request("job", t.long()), n)
	old := t.takeSlot(a, t.request("job", t.ttl()), n)
	t.freeAgain(b, old.grant)
	for _, keep := range []time.Duration{0, t.long()} {
		t.release(old.grant, keep)
	}
	if next := t.takeSlot(b, t.request("job", t.long()), n); next.slot != old.slot {
		t.Errorf("slot %d was given, want %d, the only free one", next.slot, old.slot)
	}
	t.noSlot(a, "job", n)
	t.noSlot(b, "job", n)
	t.renewed(neighbour.grant, t.long())
}

func slotsStaleReleaseFreesNone(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	neighbour := t.takeSlot(a, t.request("job", t.long()), n)
	old := t.takeSlot(a, t.request("job", t.ttl()), n)
	next := t.takenSlot(b, t.request("job", t.long()), n, old.sure())
	before := t.inspect(b, next.req.Key)
	for _, keep := range []time.Duration{0, t.long()} {
		t.release(old.grant, keep)
		t.lost(old.grant)
		t.unharmed(a, next.grant, before)
		t.noSlot(a, "job", n)
	}
	t.renewed(neighbour.grant, t.long())
}

func slotsMixTTLs(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	for _, longFirst := range []bool{true, false} {
		t.conclusive(func(trial string) bool {
			key := trial + "-" + strconv.FormatBool(longFirst)
			var long, short slotLease
			if longFirst {
				long = t.takeSlot(a, t.request(key, t.long()), n)
			}
			short = t.takeSlot(b, t.request(key, t.ttl()), n)
			if !longFirst {
				long = t.takeSlot(a, t.request(key, t.long()), n)
			}
			if time.Now().After(short.sure()) {
				return false
			}
			next := t.takenSlot(b, t.request(key, t.long()), n, short.sure())
			if next.slot != short.slot {
				t.Fatalf("slot %d was given, want %d, whose lease has ended", next.slot, short.slot)
			}
			t.noSlot(a, key, n)
			t.renewed(long.grant, t.long())
			t.lost(short.grant)
			return true
		})
	}
}

func slotsRenewAlone(t *caseT) {
	a, b := t.slotPair()
	t.needsFreeTTL()
	const n = 2
	t.conclusive(func(key string) bool {
		short := t.takeSlot(a, t.request(key, t.ttl()), n)
		renewed := t.takeSlot(a, t.request(key, t.ttl()), n)
		err := renewed.Renew(t.Context(), t.long())
		if time.Now().After(short.sure()) {
			return false
		}
		if err != nil {
			t.Fatalf("Renew: %v, want nil", err)
		}
		next := t.takenSlot(b, t.request(key, t.long()), n, short.sure())
		if next.slot != short.slot {
			t.Fatalf("slot %d was given, want %d, which nobody renewed", next.slot, short.slot)
		}
		t.noSlot(b, key, n)
		t.renewed(renewed.grant, t.long())
		return true
	})
}

func slotsFollowN(t *caseT) {
	a, b := t.slotPair()
	held := make(map[int]slotLease)
	take := func(n int) slotLease {
		t.Helper()
		g := t.takeSlot(b, t.request("job", t.long()), n)
		if other, ok := held[g.slot]; ok {
			t.Fatalf("slot %d was given, which %s has", g.slot, other.req.Owner)
		}
		held[g.slot] = g
		return g
	}
	end := func(slot int) {
		t.Helper()
		t.release(held[slot].grant, 0)
		delete(held, slot)
	}
	for _, n := range []int{3, 5} { // grows
		for len(held) < n {
			take(n)
		}
		t.noSlot(a, "job", n)
	}
	for _, slot := range []int{4, 2, 3} { // shrinks: what becomes free above is not for the smaller
		t.noSlot(a, "job", 2)
		end(slot)
		t.noSlot(a, "job", 2)
	}
	take(5)
	end(0)
	if g := take(2); g.slot != 0 { // although one above is taken
		t.Errorf("slot %d was given, want 0, the only free one of 2", g.slot)
	}
	for _, n := range []int{2, 1} {
		t.noSlot(a, "job", n)
	}
	for len(held) < 5 {
		take(5)
	}
	t.noSlot(a, "job", 5)
}

func slotsMayBeKept(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	held := t.fill(a, b, "job", n)
	t.release(held[0].grant, t.long())
	t.noSlot(b, "job", n)
	t.lost(held[0].grant)
	if h := t.inspect(b, held[0].req.Key); !h.Kept || h.Fence != held[0].Fence() {
		t.Errorf("Inspect = %+v, want kept, fence %d", h, held[0].Fence())
	}
	sent := time.Now()
	t.release(held[0].grant, t.ttl())
	next := t.takenSlot(b, t.request("job", t.long()), n, sent.Add(t.ttl()))
	if next.slot != held[0].slot {
		t.Errorf("slot %d was given, want %d, which is no longer kept", next.slot, held[0].slot)
	}
	t.noSlot(b, "job", n)
	t.renewed(held[1].grant, t.long())
}

func slotsRefuseASpentToken(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	for round := range n + 1 {
		held := t.fill(a, b, "job", n)
		for i := range held { // from another slot in each round, so that each is the first, and the only one, once
			g := held[(i+round)%n]
			t.release(g.grant, 0)
			t.spentSlot(a, g.asked, n)
			t.spentSlot(b, g.asked, n)
		}
		for _, g := range held {
			t.spentSlot(a, g.asked, n)
		}
	}
	late := t.takeSlot(a, t.request("job", t.ttl()), n)
	t.freeAgain(a, late.grant)
	t.release(late.grant, 0)
	t.spentSlot(b, late.asked, n)
}

func slotsAbandonFreesItsOwn(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	held := t.fill(a, b, "job", n)
	for i, g := range held {
		for slot := range n {
			t.abandoned(b, g.of(slot))
		}
		t.lost(g.grant)
		t.free(a, g.req.Key)
		t.spentSlot(a, g.asked, n)
		t.spentSlot(b, g.asked, n)
		for j, other := range held {
			if j != i {
				t.renewed(other.grant, t.long())
			}
		}
		held[i] = t.takeSlot(b, t.request("job", t.long()), n)
		t.grown(g.Fence(), held[i].grant)
		t.noSlot(a, "job", n)
	}
}

func slotsRefuseALateAttempt(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	for range 2 { // on slots that were never taken, and on slots that were released
		late := slotLease{asked: t.request("job", t.long())}
		for slot := range n {
			t.abandoned(a, late.of(slot))
		}
		t.spentSlot(a, late.asked, n)
		t.spentSlot(b, late.asked, n)
		for slot := range n {
			t.free(b, backend.SlotKey("job", slot))
		}
		for _, g := range t.fill(a, b, "job", n) {
			t.release(g.grant, 0)
		}
	}
}
