package sqliteleader_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

func TestBackend_TryAcquire_TellsWhoHolds(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	begin := time.Now()
	l := acquire(t, a, request("nightly", lasting))
	for _, h := range []backend.Holder{wantHeld(t, b, "nightly"), inspect(t, b, "nightly")} {
		if h.Fence != l.Fence() || h.Owner != "node-a" || h.Metadata["zone"] != "ä" || h.Kept || h.Seen == "" {
			t.Errorf("holder = %+v, fence %d", h, l.Fence())
		}
		if h.Remaining > lasting || h.Remaining < lasting-time.Minute {
			t.Errorf("remaining = %v", h.Remaining)
		}
		if d := h.Since.Sub(begin); d < -time.Millisecond || d > time.Minute {
			t.Errorf("since = %v, acquired after %v", h.Since, begin)
		}
	}
}

func TestBackend_TryAcquire_RepeatedMovesTheEndAndKeepsTheFence(t *testing.T) {
	b := open(t, newPath(t))
	req := request("k", time.Minute)
	l := acquire(t, b, req)
	req.TTL = lasting
	if again := acquire(t, b, req); again.Fence() != l.Fence() {
		t.Errorf("fence %d, then %d", l.Fence(), again.Fence())
	}
	if h := inspect(t, b, "k"); h.Remaining < lasting-time.Minute {
		t.Errorf("remaining = %v", h.Remaining)
	}
	req.TTL = time.Minute
	acquire(t, b, req)
	if h := inspect(t, b, "k"); h.Remaining < lasting-time.Minute {
		t.Errorf("a shorter repeat left %v", h.Remaining)
	}
}

func TestBackend_TryAcquire_RefusesASpentToken(t *testing.T) {
	b := open(t, newPath(t))
	released, abandoned, late := request("k", lasting), request("k", lasting), request("new", lasting)
	release(t, acquire(t, b, released), 0)
	if _, err := b.TryAcquire(t.Context(), released); !errors.Is(err, backend.ErrLost) {
		t.Errorf("after release: %v", err)
	}
	acquire(t, b, abandoned)
	for _, req := range []backend.Request{abandoned, late} {
		for range 2 {
			if err := b.Abandon(t.Context(), req); err != nil {
				t.Fatalf("Abandon: %v", err)
			}
		}
		if _, err := b.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrLost) {
			t.Errorf("after abandon of %q: %v", req.Key, err)
		}
		if h := inspect(t, b, req.Key); !h.Free() {
			t.Errorf("after abandon: %+v", h)
		}
		acquire(t, b, request(req.Key, lasting))
	}
}

func TestBackend_Abandon_SparesOthers(t *testing.T) {
	b := open(t, newPath(t))
	acquire(t, b, request("k", lasting))
	held := inspect(t, b, "k")
	if err := b.Abandon(t.Context(), request("k", lasting)); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, b, "k"); h.Fence != held.Fence || h.Seen != held.Seen {
		t.Errorf("%+v became %+v", held, h)
	}
	release(t, acquire(t, b, request("kept", lasting)), lasting)
	if err := b.Abandon(t.Context(), request("kept", lasting)); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, b, "kept"); !h.Kept {
		t.Errorf("abandoning freed a kept key: %+v", h)
	}
}

func TestBackend_TryAcquire_TakesWhatHasExpired(t *testing.T) {
	b := open(t, newPath(t))
	const ttl = 60 * time.Millisecond
	begin := time.Now()
	old := acquire(t, b, request("k", ttl))
	var next backend.Lease
	eventually(t, 5*time.Second, "take-over", func() bool {
		l, err := b.TryAcquire(t.Context(), request("k", lasting))
		next = l
		return err == nil
	})
	if d := time.Since(begin); d < ttl {
		t.Errorf("taken over after %v of %v", d, ttl)
	}
	if next.Fence() <= old.Fence() {
		t.Errorf("fence %d follows %d", next.Fence(), old.Fence())
	}
	if err := old.Renew(t.Context(), lasting); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal of what was taken over: %v", err)
	}
	release(t, old, lasting)
	if h := inspect(t, b, "k"); h.Fence != next.Fence() || h.Kept {
		t.Errorf("the old lease's release made it %+v", h)
	}
}

func TestLease_Renew_NeverShortens(t *testing.T) {
	b := open(t, newPath(t))
	l := acquire(t, b, request("k", lasting))
	if err := l.Renew(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, b, "k"); h.Remaining < lasting-time.Minute {
		t.Errorf("remaining = %v", h.Remaining)
	}
	if err := l.Renew(t.Context(), 2*lasting); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, b, "k"); h.Remaining < 2*lasting-time.Minute || h.Fence != l.Fence() {
		t.Errorf("holder = %+v", h)
	}
}

func TestLease_Renew_IsLostAfterTheEnd(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	expired := acquire(t, b, request("expired", 20*time.Millisecond))
	eventually(t, 5*time.Second, "expiry", func() bool { return inspect(t, b, "expired").Free() })
	released := acquire(t, b, request("released", lasting))
	release(t, released, 0)
	kept := acquire(t, b, request("kept", lasting))
	release(t, kept, lasting)
	deleted := acquire(t, b, request("deleted", lasting))
	execute(t, handle(t, path), "DELETE FROM leader_leases WHERE name = 'deleted'")
	for name, l := range map[string]backend.Lease{
		"expired": expired, "released": released, "kept": kept, "deleted": deleted,
	} {
		if err := l.Renew(t.Context(), lasting); !errors.Is(err, backend.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
		if h := inspect(t, b, name); !h.Free() && !h.Kept {
			t.Errorf("%s: renewal made it %+v", name, h)
		}
	}
}

func TestLease_Release_KeepsForTheTimeOfTheLastCall(t *testing.T) {
	b := open(t, newPath(t))
	l := acquire(t, b, request("k", lasting))
	release(t, l, lasting)
	if h := wantHeld(t, b, "k"); !h.Kept || h.Owner != "node-a" || h.Fence != l.Fence() {
		t.Errorf("holder = %+v", h)
	}
	const keep = time.Second
	begin := time.Now()
	release(t, l, keep)
	wantHeld(t, b, "k")
	eventually(t, 5*time.Second, "end of the keep", func() bool { return inspect(t, b, "k").Free() })
	if d := time.Since(begin); d < keep {
		t.Errorf("free after %v of %v", d, keep)
	}
	release(t, l, lasting)
	if h := inspect(t, b, "k"); !h.Free() {
		t.Errorf("a repeat after the end took the key again: %+v", h)
	}
	if next := acquire(t, b, request("k", lasting)); next.Fence() <= l.Fence() {
		t.Errorf("fence %d follows %d", next.Fence(), l.Fence())
	}
}

func TestLease_Release_OfAnExpiredLeaseKeepsNothing(t *testing.T) {
	b := open(t, newPath(t))
	req := request("k", 20*time.Millisecond)
	l := acquire(t, b, req)
	eventually(t, 5*time.Second, "expiry", func() bool { return inspect(t, b, "k").Free() })
	release(t, l, lasting)
	if h := inspect(t, b, "k"); !h.Free() {
		t.Errorf("holder = %+v", h)
	}
	if _, err := b.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrLost) {
		t.Errorf("the released token acquires: %v", err)
	}
}

func TestBackend_Fence_GrowsOverWhateverHappensToTheTable(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	db := handle(t, path)
	last := uint64(time.Now().Add(-time.Minute).UnixMicro())
	for _, damage := range []string{
		"SELECT 1", "DELETE FROM leader_leases", "DROP TABLE leader_leases", "SELECT 1",
		"UPDATE leader_leases SET fence = 9000000000000000000", "SELECT 1",
	} {
		l := acquire(t, b, request("k", lasting))
		if l.Fence() <= last {
			t.Errorf("fence %d follows %d", l.Fence(), last)
		}
		last = l.Fence()
		release(t, l, 0)
		execute(t, db, damage)
	}
	if last < 9e18 || last > math.MaxInt64 {
		t.Errorf("the last fence was %d", last)
	}
}

func TestBackend_TryAcquire_NamesTheLimit(t *testing.T) {
	b := open(t, newPath(t))
	_, err := b.TryAcquire(t.Context(), request("k", 9*time.Millisecond))
	if backend.KindOf(err) != backend.Misconfigured {
		t.Fatalf("9 ms: %v", err)
	}
	if want := "ttl 9ms is under the minimum of 10ms"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	l := acquire(t, b, request("k", b.Limits().MinTTL))
	if err := l.Renew(t.Context(), time.Millisecond); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("renewal by 1 ms: %v", err)
	}
}

func TestBackend_TryAcquire_LosingWritesNothing(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	acquire(t, b, request("k", lasting))
	conn, err := handle(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	version := func() (n int) {
		if err := conn.QueryRowContext(t.Context(), "PRAGMA data_version").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := version()
	for range 100 {
		wantHeld(t, b, "k")
	}
	if after := version(); after != before {
		t.Errorf("data_version went from %d to %d", before, after)
	}
	acquire(t, b, request("other", lasting))
	if version() == before {
		t.Error("data_version does not see a write")
	}
}

func TestBackend_LeavesOtherFormatsAlone(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	l := acquire(t, b, request("k", lasting))
	db := handle(t, path)
	execute(t, db, "UPDATE leader_leases SET format = 2, until = 0, token = ''")
	row := func() (s string) {
		const q = "SELECT format || token || spent || fence || since || until || renewals || metadata FROM leader_leases"
		if err := db.QueryRowContext(t.Context(), q).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := row()
	req := request("k", lasting)
	if _, err := b.TryAcquire(t.Context(), req); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("TryAcquire: %v", err)
	}
	if _, err := b.Inspect(t.Context(), "k"); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Inspect: %v", err)
	}
	if err := b.Abandon(t.Context(), req); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Abandon: %v", err)
	}
	if err := l.Renew(t.Context(), lasting); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Renew: %v", err)
	}
	if err := l.Release(t.Context(), 0); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Release: %v", err)
	}
	if after := row(); after != before {
		t.Errorf("the row was %q and is %q", before, after)
	}
}

func TestBackend_IgnoresColumnsOfLaterReleases(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	release(t, acquire(t, b, request("k", lasting)), 0)
	db := handle(t, path)
	execute(t, db, "ALTER TABLE leader_leases ADD COLUMN extra TEXT NOT NULL DEFAULT 'x'")
	execute(t, db, "UPDATE leader_leases SET extra = 'kept'")
	release(t, acquire(t, b, request("k", lasting)), 0)
	var extra string
	if err := db.QueryRowContext(t.Context(), "SELECT extra FROM leader_leases").Scan(&extra); err != nil || extra != "kept" {
		t.Errorf("extra = %q, %v", extra, err)
	}
}
