package local_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

func list(t *testing.T, b *local.Backend, prefix string, all bool) map[string]backend.Holder {
	t.Helper()
	found := map[string]backend.Holder{}
	for e, err := range b.List(t.Context(), prefix, all) {
		if err != nil {
			t.Fatal(err)
		}
		found[e.Key] = e.Holder
	}
	return found
}

func TestBackend_TryAcquireSlot_GivesTheLowestFreeOneAndTellsWhichEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		for want := range 3 {
			req := request("job", strconv.Itoa(want))
			req.TTL += time.Duration(2-want) * time.Second
			if _, slot, err := b.TryAcquireSlot(t.Context(), req, 3); err != nil || slot != want {
				t.Errorf("got slot %d, %v, want %d", slot, err, want)
			}
		}
		_, _, err := b.TryAcquireSlot(t.Context(), request("job", "3"), 3)
		if held, ok := errors.AsType[*backend.HeldError](err); !ok || held.Holder.Owner != "owner of 2" {
			t.Errorf("got %v, %+v, want the holder of slot 2", err, held)
		}
		time.Sleep(ttl)
		if _, slot, err := b.TryAcquireSlot(t.Context(), request("job", "3"), 3); err != nil || slot != 2 {
			t.Errorf("got slot %d, %v, want 2", slot, err)
		}
	})
}

func TestBackend_TryAcquireSlot_AWonSlotAllocatesNoMoreForALargerGroup(t *testing.T) {
	b := local.New()
	term := func(n int) float64 {
		return testing.AllocsPerRun(100, func() {
			l, _, err := b.TryAcquireSlot(t.Context(), backend.Request{Key: "job", Token: "1", TTL: ttl}, n)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Renew(t.Context(), ttl); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := term(1), term(100); many > few {
		t.Errorf("%v allocations in a group of 100, %v in a group of 1", many, few)
	}
}

func TestBackend_TryAcquireSlot_RefusesAGroupWithoutSlots(t *testing.T) {
	for _, n := range []int{0, -1} {
		if _, _, err := local.New().TryAcquireSlot(t.Context(), request("job", "1"), n); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%d slots: got %v, want Misconfigured", n, err)
		}
	}
}

func TestBackend_Records_EndExactlyWithTheirTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		r := backend.Record{Key: "a!x/1", Value: []byte("v"), TTL: time.Hour}
		version, err := b.PutRecord(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - 1)
		records, now, err := b.GetRecords(t.Context(), "a!x/")
		if err != nil || len(records) != 1 || records[0].TTL != 1 || !now.Equal(time.Now()) {
			t.Fatalf("got %+v at %v, %v, want 1ns left", records, now, err)
		}
		time.Sleep(time.Nanosecond)
		if records, _, err := b.GetRecords(t.Context(), "a!x/"); err != nil || len(records) != 0 {
			t.Errorf("got %+v, %v, want none", records, err)
		}
		r.Version = version
		if _, err := b.PutRecord(t.Context(), r); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
		if err := b.DeleteRecord(t.Context(), backend.Record{Key: "a!x/1", Version: "another"}); err != nil {
			t.Errorf("got %v for a record that has expired", err)
		}
	})
}

func TestBackend_Records_RefuseAKeyThatIsNone(t *testing.T) {
	b := local.New()
	for _, key := range []string{"", "a", "a/b", "a!b", "a!b/", "!"} {
		_, put := b.PutRecord(t.Context(), backend.Record{Key: key})
		for _, err := range []error{put, b.DeleteRecord(t.Context(), backend.Record{Key: key})} {
			if backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("%q: got %v, want Misconfigured", key, err)
			}
		}
	}
	for _, set := range []string{"", "a", "a!", "a!b", "a!b/c"} {
		if _, _, err := b.GetRecords(t.Context(), set); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%q: got %v, want Misconfigured", set, err)
		}
	}
}

func TestBackend_List_ShowsKeptAndExpiredOnesIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		acquire(t, b, "expired", "1")
		time.Sleep(ttl)
		acquire(t, b, "held", "2")
		if err := acquire(t, b, "kept", "3").Release(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if err := acquire(t, b, "released", "4").Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if found := list(t, b, "", false); len(found) != 1 || found["held"].Remaining != ttl {
			t.Errorf("got %+v, want held", found)
		}
		found := list(t, b, "", true)
		if len(found) != 3 || !found["kept"].Kept || found["expired"].Owner != "owner of 1" || found["expired"].Remaining != 0 {
			t.Errorf("got %+v, want held, kept and expired", found)
		}
	})
}

func TestBackend_Break_EndsTheLeaseAndWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		l := acquire(t, b, "a", "1")
		h, err := b.Inspect(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		woken := make(chan error, 1)
		go func() { woken <- b.AwaitRelease(t.Context(), "a", h.Seen) }()
		synctest.Wait()
		if err := b.Break(t.Context(), "a", l.Fence()+1); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
		if err := b.Break(t.Context(), "a", l.Fence()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		select {
		case err := <-woken:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a waiter still waits")
		}
		if err := l.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
	})
}
