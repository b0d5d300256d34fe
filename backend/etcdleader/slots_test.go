package etcdleader_test

import (
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/etcdleader"
)

func takeSlot(t testing.TB, b backend.SlotAcquirer, req backend.Request, n int) (backend.Lease, int) {
	t.Helper()
	lease, slot, err := b.TryAcquireSlot(t.Context(), req, n)
	if err != nil {
		t.Fatalf("TryAcquireSlot(%q, %d): %v", req.Key, n, err)
	}
	return lease, slot
}

// A transaction tries 16 slots, so this group needs several.
func TestBackend_LargeGroup_GivesEverySlotOnce(t *testing.T) {
	b, client := start(t)
	const n = 40
	held := make(map[int]backend.Lease)
	first := request("group", long)
	for i := range n {
		req := first
		if i > 0 {
			req = request("group", long)
		}
		lease, slot := takeSlot(t, b, req, n)
		if held[slot] != nil || slot < 0 || slot >= n {
			t.Fatalf("slot %d was given, and %d are held", slot, len(held))
		}
		if got := inspect(t, b, backend.SlotKey("group", slot)); got.Fence != lease.Fence() {
			t.Errorf("slot %d has fence %d, the lease %d", slot, got.Fence, lease.Fence())
		}
		held[slot] = lease
	}
	_, _, err := b.TryAcquireSlot(t.Context(), request("group", long), n)
	full, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("a full group: %v", err)
	}
	lease, slot := takeSlot(t, b, first, n)
	if lease.Fence() != full.Holder.Fence || held[slot] != lease {
		t.Errorf("fence %d of the holder, want %d, of who came first", full.Holder.Fence, lease.Fence())
	}
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	for slot, lease := range held {
		release(t, lease, 0)
		next, got := takeSlot(t, other, request("group", long), n)
		if got != slot || next.Fence() <= lease.Fence() {
			t.Fatalf("slot %d with fence %d was given, want %d with more than %d", got, next.Fence(), slot, lease.Fence())
		}
	}
}

func TestBackend_Abandon_FreesItsOwnSlotAlone(t *testing.T) {
	b, client := start(t)
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	const n = 3
	req := request("group", long)
	lease, slot := takeSlot(t, b, req, n)
	var others []backend.Lease
	for range n - 1 {
		l, _ := takeSlot(t, b, request("group", long), n)
		others = append(others, l)
	}
	for i := range n {
		own := req
		own.Key = backend.SlotKey("group", i)
		if err := other.Abandon(t.Context(), own); err != nil {
			t.Fatal(err)
		}
	}
	lost(t, lease)
	for _, l := range others {
		renew(t, l)
	}
	if _, got := takeSlot(t, other, request("group", long), n); got != slot {
		t.Errorf("slot %d was given, want %d", got, slot)
	}
}

func TestBackend_Break_FreesASlotAndAKeptKey(t *testing.T) {
	b, _ := start(t)
	const n = 2
	lease, slot := takeSlot(t, b, request("group", long), n)
	neighbour, _ := takeSlot(t, b, request("group", long), n)
	if err := b.Break(t.Context(), backend.SlotKey("group", slot), lease.Fence()); err != nil {
		t.Fatal(err)
	}
	lost(t, lease)
	renew(t, neighbour)
	if _, got := takeSlot(t, b, request("group", long), n); got != slot {
		t.Errorf("slot %d was given, want %d", got, slot)
	}

	kept := win(t, b, request("job", long))
	release(t, kept, long)
	if err := b.Break(t.Context(), "job", kept.Fence()); err != nil {
		t.Fatal(err)
	}
	next := win(t, b, request("job", long))
	release(t, kept, long) // which must not touch the successor
	renew(t, next)
	if h := inspect(t, b, "job"); h.Kept || h.Fence != next.Fence() {
		t.Errorf("holder %+v, want the successor with fence %d", h, next.Fence())
	}
}

func TestBackend_GetRecords_TellsTheTTLOfTheLastPut(t *testing.T) {
	b, _ := start(t)
	r := backend.Record{Key: "job!run/1", TTL: 90*time.Second + time.Millisecond}
	if _, err := b.PutRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	list, now, err := b.GetRecords(t.Context(), "job!run/")
	if err != nil || len(list) != 1 || list[0].TTL != r.TTL || !now.IsZero() {
		t.Errorf("records %+v at %v, %v, want a TTL of %v and no time", list, now, err, r.TTL)
	}
	for _, key := range []string{"job", "job!run", "job!run/", "!run/1"} {
		if _, err := b.PutRecord(t.Context(), backend.Record{Key: key}); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("PutRecord(%q): %v", key, err)
		}
	}
	if _, _, err := b.GetRecords(t.Context(), "job!run/1"); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("GetRecords of a record: %v", err)
	}
}
