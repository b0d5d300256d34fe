package backendtest

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/goleader/leader/backend"
)

func slotCases() []testCase {
	return []testCase{
		{
			name: "Slots_AdmitN",
			rule: abilitySlotAcquirer,
			says: "n tokens hold a slot at the same time and one more is refused, for n of 1, 3 and 20",
			run:  slotsAdmitN,
		},
		{
			name: "Slots_AreDistinct",
			rule: abilitySlotAcquirer,
			says: "the slots of n holders are different numbers from 0 to n-1, also after some were released",
			run:  slotsAreDistinct,
		},
		{
			name: "Slots_HaveTheirOwnFences",
			rule: abilitySlotAcquirer,
			says: "the fence of a slot grows with each of its leases and leaves those of the other slots alone",
			run:  slotsHaveTheirOwnFences,
		},
		{
			name: "Slots_AreOrdinaryKeys",
			rule: abilitySlotAcquirer,
			says: "Inspect and TryAcquire see a slot under its SlotKey, and a slot that was taken there is not given away",
			run:  slotsAreOrdinaryKeys,
		},
		{
			name: "Slots_OfGroupsDoNotMix",
			rule: abilitySlotAcquirer,
			says: "groups have slots of their own however alike their keys are, and none of them is the key itself",
			run:  slotsOfGroupsDoNotMix,
		},
		{
			name: "Slots_NameTheHolderThatEndsFirst",
			rule: abilitySlotAcquirer,
			says: "the HeldError of a full group has the holder whose lease ends first",
			run:  slotsNameTheHolderThatEndsFirst,
		},
		{
			name: "Slots_RepeatGetsTheSame",
			rule: abilitySlotAcquirer,
			says: "a repeated token gets the slot and the fence that it has, whichever slots are free",
			run:  slotsRepeatGetsTheSame,
		},
		{
			name: "Slots_RepeatMovesTheEnd",
			rule: abilitySlotAcquirer,
			says: "a repeated attempt moves the end of its slot to at least its own TTL from now",
			run:  slotsRepeatMovesTheEnd,
		},
		{
			name: "Slots_JoinRepeats",
			rule: abilitySlotAcquirer,
			says: "attempts with one token at the same time get one slot and one fence",
			run:  slotsJoinRepeats,
		},
		{
			name: "Slots_RepeatBesideChanges",
			rule: abilitySlotAcquirer,
			says: "a repeated token gets the slot and the fence that it has while the other slots come and go",
			run:  slotsRepeatBesideChanges,
		},
		{
			name: "Slots_FindAFreeOne",
			rule: abilitySlotAcquirer,
			says: "an attempt gets a slot if one is free all the time, while the others come and go",
			run:  slotsFindAFreeOne,
		},
		{
			name: "Slots_HaveOneWinnerEach",
			rule: abilitySlotAcquirer,
			says: "of thirty attempts at the same time exactly n get a slot, and the others find them held",
			run:  slotsHaveOneWinnerEach,
		},
		{
			name: "Slots_NeverExceedN",
			rule: abilitySlotAcquirer,
			says: "eight contenders with leases of mixed lengths hold at most n slots at a time, and no slot gets lost",
			run:  slotsNeverExceedN,
		},
		{
			name: "Slots_RefuseATTLOutside",
			rule: abilitySlotAcquirer,
			says: "a TTL outside Limits is Misconfigured and takes no slot",
			run:  slotsRefuseATTLOutside,
		},
		{
			name: "Slots_EndWithTheContext",
			rule: abilitySlotAcquirer,
			says: "an attempt whose context is over returns an error that wraps the context's and takes no slot",
			run:  slotsEndWithTheContext,
		},
		{
			name:  "Slots_SpareAHarmedRecord",
			rule:  abilitySlotAcquirer,
			says:  "a slot whose record cannot be read is neither given away nor overwritten",
			needs: needCorrupt,
			run:   slotsSpareAHarmedRecord,
		},
	}
}

func slotsAdmitN(t *caseT) {
	for _, n := range []int{1, 3, 20} {
		a, b := t.slotPair()
		held := t.fill(a, b, "job", n)
		t.noSlot(a, "job", n)
		t.noSlot(b, "job", n)
		for _, g := range held {
			t.renewed(g.grant, t.long())
		}
		t.noSlot(a, "job", n)
	}
}

func slotsAreDistinct(t *caseT) {
	a, b := t.slotPair()
	const n = 7
	held := make(map[int]slotLease)
	take := func() {
		t.Helper()
		g := t.takeSlot(a, t.request("job", t.long()), n)
		if other, ok := held[g.slot]; ok {
			t.Fatalf("%s got slot %d, which %s has", g.req.Owner, g.slot, other.req.Owner)
		}
		held[g.slot] = g
	}
	for range n {
		take()
	}
	for _, slot := range []int{4, 0, 6} {
		t.release(held[slot].grant, 0)
		delete(held, slot)
	}
	for range 3 {
		take()
	}
	for slot, g := range held {
		if h := t.inspect(b, g.req.Key); h.Owner != g.req.Owner {
			t.Errorf("Inspect(%q) = %+v, want %s, who got slot %d", g.req.Key, h, g.req.Owner, slot)
		}
	}
}

func slotsHaveTheirOwnFences(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	held := t.fill(a, b, "job", n)
	for range 5 {
		for i, old := range held {
			t.release(old.grant, 0)
			next := t.takeSlot(b, t.request("job", t.long()), n)
			if next.slot != old.slot {
				t.Fatalf("slot %d was given, want %d, the only free one", next.slot, old.slot)
			}
			t.grown(old.Fence(), next.grant)
			held[i] = next
			for _, g := range held {
				if h := t.inspect(a, g.req.Key); h.Fence != g.Fence() || h.Owner != g.req.Owner {
					t.Fatalf("Inspect(%q) = %+v, want owner %s, fence %d", g.req.Key, h, g.req.Owner, g.Fence())
				}
			}
		}
	}
}

func slotsAreOrdinaryKeys(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	g := t.takeSlot(a, t.request("job", t.long()), n)
	h := t.inspect(b, g.req.Key)
	if h.Owner != g.req.Owner || h.Fence != g.Fence() || !maps.Equal(h.Metadata, g.req.Metadata) {
		t.Errorf("Inspect(%q) = %+v, want %+v with fence %d", g.req.Key, h, g.asked, g.Fence())
	}
	t.plausible(h.Remaining, g.sent, t.long())
	t.unharmed(b, g.grant, h)
	t.free(b, "job")
	for slot := range n {
		if slot != g.slot {
			t.win(b, t.request(backend.SlotKey("job", slot), t.long()))
		}
	}
	t.noSlot(a, "job", n)
	t.abandoned(b, g.req)
	t.lost(g.grant)
	if again := t.takeSlot(b, t.request("job", t.long()), n); again.slot != g.slot {
		t.Errorf("slot %d was given, want %d, the only free one", again.slot, g.slot)
	}
}

func slotsOfGroupsDoNotMix(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	groups := []string{
		"a", "A", "ab", "a%h0", "a#0", "a%", "a_", "a*", "a?", "a[0]", "a:b", "a:0", "b/a", "a ", "{a}", "a.0",
	}
	var held []slotLease
	for _, key := range groups {
		held = append(held, t.fill(a, b, key, n)...)
	}
	for _, key := range groups {
		t.noSlot(b, key, n)
	}
	t.release(t.win(a, t.request("a", t.long())), 0)
	for _, g := range held {
		if h := t.inspect(b, g.req.Key); h.Owner != g.req.Owner || h.Fence != g.Fence() {
			t.Errorf("Inspect(%q) = %+v, want owner %s, fence %d", g.req.Key, h, g.req.Owner, g.Fence())
		}
		t.release(g.grant, 0)
	}
}

func slotsNameTheHolderThatEndsFirst(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	ttls := []time.Duration{t.long() / 2, t.long() / 4, t.long()}
	held := make([]slotLease, n)
	for i, ttl := range ttls {
		held[i] = t.takeSlot(a, t.request("job", ttl), n)
	}
	for _, first := range []slotLease{held[1], held[0]} {
		for _, d := range []backend.Driver{a, b} {
			h := t.noSlot(d, "job", n)
			if h.Owner != first.req.Owner || h.Fence != first.Fence() {
				t.Errorf("HeldError has %+v, want %s with fence %d, who ends first", h, first.req.Owner, first.Fence())
			}
			t.plausible(h.Remaining, first.sent, first.req.TTL)
		}
		t.release(first.grant, 0)
		t.takeSlot(b, t.request("job", t.long()), n)
	}
}

func slotsRepeatGetsTheSame(t *caseT) {
	a, b := t.slotPair()
	const n = 4
	held := t.fill(a, b, "job", n)
	for len(held) > 0 {
		for _, g := range held {
			again := t.takeSlot(g.driver, g.asked, n)
			if again.slot != g.slot || again.Fence() != g.Fence() {
				t.Fatalf("the repeated attempt of %s got slot %d with fence %d, want %d with %d",
					g.req.Owner, again.slot, again.Fence(), g.slot, g.Fence())
			}
		}
		t.release(held[0].grant, 0)
		held = held[1:]
	}
	t.fill(a, b, "job", n)
	t.noSlot(b, "job", n)
}

func slotsRepeatMovesTheEnd(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	t.conclusive(func(key string) bool {
		t.takeSlot(a, t.request(key, t.long()), n)
		req := t.request(key, t.ttl())
		first := t.takeSlot(a, req, n)
		t.pauseUntil(first.sent.Add(t.ttl() * 6 / 10))
		again, err := t.trySlot(a, req, n)
		if time.Now().After(first.sure()) {
			return false
		}
		if err != nil {
			t.Fatalf("the repeated attempt: %v, want success", err)
		}
		t.takenSlot(b, t.request(key, t.long()), n, again.sure())
		return true
	})
}

func slotsJoinRepeats(t *caseT) {
	a, b := t.slotPair()
	const n, repeats = 4, 8
	for range 5 {
		req := t.request("job", t.long())
		got := make(chan slotLease, repeats)
		t.together(repeats, func(int) { got <- t.takeSlot(a, req, n) })
		if len(got) != repeats {
			return // a failure was reported
		}
		first := <-got
		for range repeats - 1 {
			if g := <-got; g.slot != first.slot || g.Fence() != first.Fence() {
				t.Fatalf("one token got slot %d with fence %d, and slot %d with fence %d",
					first.slot, first.Fence(), g.slot, g.Fence())
			}
		}
		t.release(first.grant, 0)
		for slot := range n {
			t.free(b, backend.SlotKey("job", slot))
		}
	}
}

func slotsHaveOneWinnerEach(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	for range 5 {
		wins := make(chan slotLease, 30)
		t.together(cap(wins), func(i int) {
			d := a
			if i%2 == 1 {
				d = b
			}
			g, err := t.trySlot(d, t.request("job", t.long()), n)
			switch {
			case err == nil:
				wins <- g
			case !errors.Is(err, backend.ErrHeld):
				t.Errorf("TryAcquireSlot: %v, want success or ErrHeld", err)
			}
		})
		if len(wins) != n {
			t.Fatalf("%d of %d attempts got one of %d slots, want %d", len(wins), cap(wins), n, n)
		}
		for range n {
			g := <-wins
			t.renewed(g.grant, t.long())
			t.release(g.grant, 0)
		}
	}
}

func slotsRefuseATTLOutside(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	for ttl, limit := range t.outside() {
		_, err := t.trySlot(a, t.request("job", ttl), n)
		t.names(err, ttl, limit)
	}
	t.fill(a, b, "job", n)
}

func slotsEndWithTheContext(t *caseT) {
	a, b := t.slotPair()
	const n = 2
	s := ability[backend.SlotAcquirer](t, a)
	for range 3 {
		_, _, err := s.TryAcquireSlot(t.canceled(), t.request("job", t.long()), n)
		t.wraps("TryAcquireSlot", err, context.Canceled)
	}
	t.fill(a, b, "job", n)
}

// slotsSpareAHarmedRecord lets the driver choose between an error and another slot.
func slotsSpareAHarmedRecord(t *caseT) {
	a, b := t.slotPair()
	const n, harmed = 2, 0
	key := backend.SlotKey("job", harmed)
	t.cfg.Corrupt(t, key, Garbled)
	for _, d := range []backend.Driver{a, b, a} {
		g, err := t.trySlot(d, t.request("job", t.long()), n)
		switch {
		case err == nil && g.slot == harmed:
			t.Fatalf("slot %d, whose record cannot be read, was given away", harmed)
		case err != nil && !errors.Is(err, backend.ErrHeld):
			t.misconfigured("TryAcquireSlot", "never taken", err)
		}
		_, err = d.Inspect(t.Context(), key)
		t.misconfigured("Inspect", "never taken", err)
	}
}
