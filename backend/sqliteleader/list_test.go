package sqliteleader_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// entries lists what begins with prefix, by key.
func entries(t testing.TB, d backend.Lister, prefix string, all bool) map[string]backend.Holder {
	t.Helper()
	found := make(map[string]backend.Holder)
	for e, err := range d.List(t.Context(), prefix, all) {
		if err != nil {
			t.Fatalf("List %q: %v", prefix, err)
		}
		if _, twice := found[e.Key]; twice {
			t.Errorf("%q is listed twice", e.Key)
		}
		found[e.Key] = e.Holder
	}
	return found
}

func keys(found map[string]backend.Holder) string {
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

func TestBackend_List_FindsKeysByTheirPrefix(t *testing.T) {
	b := open(t, newPath(t))
	for _, key := range []string{"a", "a#0", "a#1", "a#10", "a/x", "a0", "ab", "A", "b", "é", "ê", "\U0010ffff", "_"} {
		acquire(t, b, request(key, lasting))
	}
	if _, err := b.PutRecord(t.Context(), backend.Record{Key: "a!x/1"}); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{
		"":           "A _ a a#0 a#1 a#10 a/x a0 ab b é ê \U0010ffff",
		"a":          "a a#0 a#1 a#10 a/x a0 ab",
		"a#":         "a#0 a#1 a#10",
		"a#1":        "a#1 a#10",
		"a/":         "a/x",
		"é":          "é",
		"\xc3":       "é ê",
		"\U0010ffff": "\U0010ffff",
		"%":          "",
		"a!":         "",
		"c":          "",
	} {
		if got := keys(entries(t, b, prefix, false)); got != want {
			t.Errorf("List(%q) = %q, want %q", prefix, got, want)
		}
	}
}

func TestBackend_List_ShowsKeptAndExpiredOnesIfAsked(t *testing.T) {
	b := open(t, newPath(t))
	held := acquire(t, b, request("held", lasting))
	kept := acquire(t, b, request("kept", lasting))
	release(t, kept, lasting)
	release(t, acquire(t, b, request("released", lasting)), 0)
	release(t, acquire(t, b, request("kept until now", lasting)), time.Millisecond)
	expired := acquire(t, b, request("expired", 20*time.Millisecond))
	eventually(t, watchdog, "expiry", func() bool {
		return inspect(t, b, "expired").Free() && inspect(t, b, "kept until now").Free()
	})
	if got := keys(entries(t, b, "", false)); got != "held" {
		t.Errorf("List = %q", got)
	}
	all := entries(t, b, "", true)
	if got := keys(all); got != "expired held kept" {
		t.Fatalf("List of all = %q", got)
	}
	if h := all["held"]; h.Fence != held.Fence() || h.Kept || h.Owner != "node-a" || h.Metadata["zone"] != "ä" ||
		h.Remaining < lasting-time.Minute || h.Since.IsZero() || h.Seen != inspect(t, b, "held").Seen {
		t.Errorf("held = %+v", h)
	}
	if h := all["kept"]; h.Fence != kept.Fence() || !h.Kept || h.Remaining < lasting-time.Minute {
		t.Errorf("kept = %+v", h)
	}
	if h := all["expired"]; h.Fence != expired.Fence() || h.Kept || h.Owner != "node-a" || h.Remaining != 0 {
		t.Errorf("expired = %+v", h)
	}
}

func TestBackend_List_KeepsNoConnectionWhileItYields(t *testing.T) {
	db := handle(t, newPath(t))
	db.SetMaxOpenConns(1)
	b := sqlleader.New(db, sqlleader.SQLite(), &sqlleader.Options{CreateTable: true})
	t.Cleanup(func() { _ = b.Close() })
	for _, key := range []string{"a", "b", "c"} {
		acquire(t, b, request(key, lasting))
	}
	broken := 0
	for e, err := range b.List(bounded(t, watchdog), "", false) {
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Break(bounded(t, watchdog), e.Key, e.Fence); err != nil {
			t.Fatalf("Break in a List: %v", err)
		}
		if broken++; broken == 2 {
			break
		}
	}
	if got := entries(t, b, "", false); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

func TestBackend_List_YieldsErrorsLast(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	for _, key := range []string{"a", "b", "c", "d"} {
		acquire(t, b, request(key, lasting))
	}
	db := handle(t, path)
	execute(t, db, "UPDATE leader_leases SET format = 2 WHERE name = 'b'")
	execute(t, db, "UPDATE leader_leases SET metadata = '{' WHERE name = 'c'")
	var got []string
	var last error
	for e, err := range b.List(t.Context(), "", false) {
		if last != nil {
			t.Fatalf("%q follows an error", e.Key)
		}
		if last = err; err == nil {
			got = append(got, e.Key)
		}
	}
	if strings.Join(got, "") != "ad" || backend.KindOf(last) != backend.Misconfigured {
		t.Errorf("List = %q, %v", got, last)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range b.List(ctx, "", false) {
		if !errors.Is(err, ctx.Err()) {
			t.Errorf("List after its context: %+v, %v", e, err)
		}
	}
}

func TestBackend_Break_EndsTheLeaseOfThatFence(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	req := request("k", lasting)
	l := acquire(t, a, req)
	bystander := acquire(t, a, request("k#0", lasting))
	for _, fence := range []uint64{0, l.Fence() - 1, l.Fence() + 1, 1 << 63, 1<<64 - 1} {
		if err := b.Break(t.Context(), "k", fence); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("Break with fence %d of %d: %v", fence, l.Fence(), err)
		}
	}
	if h := inspect(t, b, "k"); h.Fence != l.Fence() {
		t.Fatalf("holder = %+v", h)
	}
	if err := b.Break(t.Context(), "k", l.Fence()); err != nil {
		t.Fatalf("Break: %v", err)
	}
	if h := inspect(t, a, "k"); !h.Free() {
		t.Errorf("holder = %+v", h)
	}
	for _, key := range []string{"k", "nothing"} {
		if err := b.Break(t.Context(), key, l.Fence()); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("Break of the free key %q: %v", key, err)
		}
	}
	if err := l.Renew(t.Context(), lasting); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew: %v", err)
	}
	if _, err := a.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrLost) {
		t.Errorf("TryAcquire with the broken token: %v", err)
	}
	release(t, l, lasting)
	next := acquire(t, b, request("k", lasting))
	if next.Fence() <= l.Fence() {
		t.Errorf("fence %d follows %d", next.Fence(), l.Fence())
	}
	if err := bystander.Renew(t.Context(), lasting); err != nil {
		t.Errorf("another key's lease: %v", err)
	}
}

func TestBackend_Break_EndsWhatIsKept(t *testing.T) {
	b := open(t, newPath(t))
	req := request("k", lasting)
	l := acquire(t, b, req)
	release(t, l, lasting)
	if err := b.Break(t.Context(), "k", l.Fence()); err != nil {
		t.Fatalf("Break: %v", err)
	}
	release(t, l, lasting)
	if h := inspect(t, b, "k"); !h.Free() {
		t.Errorf("a repeated release kept it again: %+v", h)
	}
	if _, err := b.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrLost) {
		t.Errorf("TryAcquire with the released token: %v", err)
	}
}

func TestBackend_Break_OfAnExpiredLeaseIsAConflict(t *testing.T) {
	b := open(t, newPath(t))
	l := acquire(t, b, request("k", 20*time.Millisecond))
	eventually(t, watchdog, "expiry", func() bool { return inspect(t, b, "k").Free() })
	if err := b.Break(t.Context(), "k", l.Fence()); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("Break: %v", err)
	}
}

func TestBackend_Break_EndsALeaseOfAnotherBoot(t *testing.T) {
	path := newPath(t)
	l := acquire(t, openOn(t, path, &machine{name: "before"}), request("k", lasting))
	after := openOn(t, path, &machine{name: "after"})
	if err := after.Break(t.Context(), "k", l.Fence()); err != nil {
		t.Fatalf("Break: %v", err)
	}
	acquire(t, after, request("k", lasting))
}

func TestBackend_Break_LeavesOtherFormatsAlone(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	l := acquire(t, b, request("k", lasting))
	db := handle(t, path)
	execute(t, db, "UPDATE leader_leases SET format = 2")
	if err := b.Break(t.Context(), "k", l.Fence()); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Break: %v", err)
	}
	execute(t, db, "UPDATE leader_leases SET format = 1")
	if h := inspect(t, b, "k"); h.Fence != l.Fence() {
		t.Errorf("holder = %+v", h)
	}
}

func TestBackend_Break_WakesWhoWaits(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	for name, keep := range map[string]time.Duration{"held": 0, "kept": lasting} {
		l := acquire(t, a, request(name, lasting))
		if keep > 0 {
			release(t, l, keep)
		}
		done := await(t, b, name, inspect(t, b, name).Seen)
		select {
		case err := <-done:
			t.Fatalf("%s: woken early: %v", name, err)
		case <-time.After(60 * time.Millisecond):
		}
		begin := time.Now()
		if err := a.Break(t.Context(), name, l.Fence()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("%s: woken after %v", name, d)
		}
	}
}
