package backendtest

import (
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

// A slotLease is a grant of a slot. Its req is an attempt on the slot's own key, so that all steps fit it.
type slotLease struct {
	grant

	slot  int
	asked backend.Request // with the key of the group
}

// of is the attempt that asked for a slot, on the key of one of the slots.
func (g slotLease) of(slot int) backend.Request {
	req := g.asked
	req.Key = backend.SlotKey(req.Key, slot)
	return req
}

// slotPair returns two clients of a new store that offer slots.
func (t *caseT) slotPair() (a, b backend.Driver) {
	t.Helper()
	a, b = t.pair()
	ability[backend.SlotAcquirer](t, a)
	ability[backend.SlotAcquirer](t, b)
	return a, b
}

// trySlot makes one attempt; a success must come with a lease that has a fence, on one of the n slots.
func (t *caseT) trySlot(d backend.Driver, req backend.Request, n int) (slotLease, error) {
	t.Helper()
	sent := time.Now()
	lease, slot, err := ability[backend.SlotAcquirer](t, d).TryAcquireSlot(t.Context(), req, n)
	g := slotLease{
		grant: grant{Lease: lease, driver: d, req: req, sent: sent, answered: time.Now()},
		slot:  slot,
		asked: req,
	}
	g.req.Key = backend.SlotKey(req.Key, slot)
	switch {
	case err != nil && lease != nil:
		t.Fatalf("TryAcquireSlot(%q, %d) by %s: a lease together with the error %v", req.Key, n, req.Owner, err)
	case err != nil:
	case lease == nil:
		t.Fatalf("TryAcquireSlot(%q, %d) by %s: neither lease nor error", req.Key, n, req.Owner)
	case slot < 0 || slot >= n:
		t.Fatalf("TryAcquireSlot(%q, %d) by %s: slot %d, want one from 0 to %d", req.Key, n, req.Owner, slot, n-1)
	case lease.Fence() == 0:
		t.Fatalf("TryAcquireSlot(%q, %d) by %s: the fence is 0", req.Key, n, req.Owner)
	}
	return g, err
}

// takeSlot acquires a slot and must succeed.
func (t *caseT) takeSlot(d backend.Driver, req backend.Request, n int) slotLease {
	t.Helper()
	g, err := t.trySlot(d, req, n)
	if err != nil {
		t.Fatalf("TryAcquireSlot(%q, %d) by %s: %v, want success", req.Key, n, req.Owner, err)
	}
	return g
}

// takenSlot attempts until a slot can be had, which must not be before the instant given, and soon after it.
func (t *caseT) takenSlot(d backend.Driver, req backend.Request, n int, notBefore time.Time) slotLease {
	t.Helper()
	var g slotLease
	t.eventually("TryAcquireSlot finds a free slot", max(0, time.Until(notBefore))+t.grace(), func() bool {
		var err error
		g, err = t.trySlot(d, req, n)
		if err != nil && !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("TryAcquireSlot(%q, %d) by %s: %v, want success or ErrHeld", req.Key, n, req.Owner, err)
		}
		return err == nil
	})
	if early := notBefore.Sub(g.answered); early > t.cfg.Skew {
		t.Fatalf("TryAcquireSlot(%q, %d) by %s succeeded %v before a lease could end", req.Key, n, req.Owner, early)
	}
	return g
}

// noSlot makes an attempt that must find all slots held, and returns what the answer says of the holder.
func (t *caseT) noSlot(d backend.Driver, key string, n int) backend.Holder {
	t.Helper()
	g, err := t.trySlot(d, t.request(key, t.long()), n)
	if err == nil {
		t.Fatalf("TryAcquireSlot(%q, %d) got slot %d, want ErrHeld", key, n, g.slot)
	}
	held, ok := errors.AsType[*backend.HeldError](err)
	if !ok || !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("TryAcquireSlot(%q, %d): %v, want a HeldError", key, n, err)
	}
	return held.Holder
}

// spentSlot repeats an attempt whose token must be refused for good.
func (t *caseT) spentSlot(d backend.Driver, req backend.Request, n int) {
	t.Helper()
	if g, err := t.trySlot(d, req, n); !errors.Is(err, backend.ErrLost) {
		t.Fatalf("TryAcquireSlot(%q, %d) by %s with a spent token: slot %d, %v, want ErrLost",
			req.Key, n, req.Owner, g.slot, orSuccess(err))
	}
}

// fill takes all slots of a group, on both clients in turn.
func (t *caseT) fill(a, b backend.Driver, key string, n int) []slotLease {
	t.Helper()
	held := make([]slotLease, n)
	for i := range held {
		d := a
		if i%2 == 1 {
			d = b
		}
		held[i] = t.takeSlot(d, t.request(key, t.long()), n)
	}
	return held
}
