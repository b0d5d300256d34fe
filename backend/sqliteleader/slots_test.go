package sqliteleader_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

func takeSlot(t testing.TB, d backend.SlotAcquirer, req backend.Request, n int) (l backend.Lease, slot int) {
	t.Helper()
	l, slot, err := d.TryAcquireSlot(t.Context(), req, n)
	if err != nil {
		t.Fatalf("TryAcquireSlot %q of %d: %v", req.Key, n, err)
	}
	if slot < 0 || slot >= n {
		t.Fatalf("slot %d of %d", slot, n)
	}
	return l, slot
}

func wantFull(t testing.TB, d backend.SlotAcquirer, key string, n int) backend.Holder {
	t.Helper()
	_, slot, err := d.TryAcquireSlot(t.Context(), request(key, lasting), n)
	held, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("TryAcquireSlot %q of %d = %d, %v, want held", key, n, slot, err)
	}
	return held.Holder
}

func TestBackend_TryAcquireSlot_GivesEachOfTheSlotsOnce(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	const n = 12
	acquire(t, a, request("g", lasting)) // the key itself and other groups are nobody's slots
	acquire(t, a, request("g#00", lasting))
	takeSlot(t, a, request("g#1", lasting), 1)
	taken := make(map[int]backend.Lease)
	for range n {
		l, slot := takeSlot(t, b, request("g", lasting), n)
		if taken[slot] != nil {
			t.Fatalf("slot %d was given twice", slot)
		}
		taken[slot] = l
	}
	wantFull(t, a, "g", n)
	for slot, l := range taken {
		if h := inspect(t, a, backend.SlotKey("g", slot)); h.Fence != l.Fence() {
			t.Errorf("slot %d has fence %d, its lease %d", slot, h.Fence, l.Fence())
		}
	}
	release(t, taken[5], 0)
	wantFull(t, a, "g", 5)
	if l, slot := takeSlot(t, a, request("g", lasting), n); slot != 5 || l.Fence() <= taken[5].Fence() {
		t.Errorf("slot %d with fence %d follows slot 5 with fence %d", slot, l.Fence(), taken[5].Fence())
	}
	if _, slot := takeSlot(t, a, request("g", lasting), n+1); slot != n {
		t.Errorf("slot %d, want the new one", slot)
	}
}

func TestBackend_TryAcquireSlot_ChoosesAmongTheFreeOnes(t *testing.T) {
	b := open(t, newPath(t))
	const n = 4
	seen := make(map[int]bool)
	for i := 0; len(seen) < n; i++ {
		if i == 500 {
			t.Fatalf("500 attempts got only slots %v", seen)
		}
		l, slot := takeSlot(t, b, request("g", lasting), n)
		seen[slot] = true
		release(t, l, 0)
	}
}

func TestBackend_TryAcquireSlot_TellsWhoseEndComesFirst(t *testing.T) {
	b := open(t, newPath(t))
	const n = 3
	for _, ttl := range []time.Duration{3 * lasting, lasting, 2 * lasting} {
		req := request("g", ttl)
		req.Owner = fmt.Sprint(ttl)
		takeSlot(t, b, req, n)
	}
	h := wantFull(t, b, "g", n)
	if h.Owner != fmt.Sprint(lasting) || h.Remaining > lasting || h.Remaining < lasting-time.Minute || h.Seen == "" {
		t.Errorf("holder = %+v", h)
	}
}

func TestBackend_TryAcquireSlot_RepeatedGetsTheSameSlot(t *testing.T) {
	b := open(t, newPath(t))
	const n = 8
	req := request("g", time.Minute)
	l, slot := takeSlot(t, b, req, n)
	req.TTL = lasting
	for range 20 {
		again, other := takeSlot(t, b, req, n)
		if other != slot || again.Fence() != l.Fence() {
			t.Fatalf("slot %d with fence %d became slot %d with fence %d", slot, l.Fence(), other, again.Fence())
		}
	}
	if h := inspect(t, b, backend.SlotKey("g", slot)); h.Remaining < lasting-time.Minute {
		t.Errorf("remaining = %v", h.Remaining)
	}
	release(t, l, 0)
	if _, _, err := b.TryAcquireSlot(t.Context(), req, n); !errors.Is(err, backend.ErrLost) {
		t.Errorf("the released token: %v", err)
	}
	abandoned := request("g", lasting)
	if err := b.Abandon(t.Context(), withKey(abandoned, backend.SlotKey("g", 3))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.TryAcquireSlot(t.Context(), abandoned, n); !errors.Is(err, backend.ErrLost) {
		t.Errorf("the abandoned token: %v", err)
	}
	if got := entries(t, b, "g#", false); len(got) != 0 {
		t.Errorf("held: %v", got)
	}
}

func withKey(req backend.Request, key string) backend.Request {
	req.Key = key
	return req
}

func TestBackend_TryAcquireSlot_ExpiredTokenGetsItsOwnSlot(t *testing.T) {
	b := open(t, newPath(t))
	const n = 16
	req := request("g", 20*time.Millisecond)
	l, slot := takeSlot(t, b, req, n)
	eventually(t, watchdog, "expiry", func() bool { return inspect(t, b, backend.SlotKey("g", slot)).Free() })
	req.TTL = lasting
	next, again := takeSlot(t, b, req, n)
	if again != slot || next.Fence() <= l.Fence() {
		t.Errorf("slot %d with fence %d follows slot %d with fence %d", again, next.Fence(), slot, l.Fence())
	}
}

// The answers to the first of these attempts may have been lost while they were on their way.
func TestBackend_TryAcquireSlot_OverlappingRepeatsHoldOneSlot(t *testing.T) {
	path := newPath(t)
	backends := []backend.SlotAcquirer{open(t, path), open(t, path)}
	const n, repeats, rounds = 8, 6, 30
	for round := range rounds {
		req := request(fmt.Sprint("g", round), lasting)
		var all sync.WaitGroup
		for i := range repeats {
			all.Go(func() {
				_, _, err := backends[i%2].TryAcquireSlot(t.Context(), req, n)
				if err != nil && !errors.Is(err, backend.ErrHeld) && backend.KindOf(err) != backend.Unavailable {
					t.Errorf("TryAcquireSlot: %v", err)
				}
			})
		}
		all.Wait()
		if held := entries(t, backends[0].(backend.Lister), req.Key+"#", false); len(held) != 1 {
			t.Fatalf("one token holds %v", held)
		}
	}
}

func TestBackend_TryAcquireSlot_OverlappingReleaseOpensNoSecondTerm(t *testing.T) {
	path := newPath(t)
	b, db := open(t, path), handle(t, path)
	const n, rounds = 8, 100
	for round := range rounds {
		req := request(fmt.Sprint("g", round), lasting)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				l, _, err := b.TryAcquireSlot(t.Context(), req, n)
				if err == nil {
					err = l.Release(t.Context(), 0)
				}
				if err != nil && !errors.Is(err, backend.ErrLost) && !errors.Is(err, backend.ErrHeld) {
					t.Errorf("TryAcquireSlot and Release: %v", err)
				}
			})
		}
		all.Wait()
		terms := 0
		row := db.QueryRowContext(t.Context(), "SELECT count(*) FROM leader_leases WHERE name GLOB ?", req.Key+"#*")
		if err := row.Scan(&terms); err != nil || terms != 1 {
			t.Fatalf("one token had terms in %d slots, %v", terms, err)
		}
	}
}

// Attempts that collide choose again: those who found a slot free are not told that all are taken.
func TestBackend_TryAcquireSlot_AdmitsNAtOnce(t *testing.T) {
	b := open(t, newPath(t))
	const n, rounds = 16, 50
	var refused atomic.Int64
	for round := range rounds {
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				_, _, err := b.TryAcquireSlot(t.Context(), request(fmt.Sprint("g", round), lasting), n)
				if errors.Is(err, backend.ErrHeld) {
					refused.Add(1)
				} else if err != nil {
					t.Errorf("TryAcquireSlot: %v", err)
				}
			})
		}
		all.Wait()
	}
	if got := refused.Load(); got > rounds*n/100 {
		t.Errorf("%d of %d attempts were refused beside free slots", got, rounds*n)
	}
}

func TestBackend_TryAcquireSlot_NeverAdmitsMoreThanN(t *testing.T) {
	path := newPath(t)
	backends := []backend.SlotAcquirer{open(t, path), open(t, path)}
	const n, contenders, each = 3, 24, 8
	var mu sync.Mutex
	holding, most, terms := 0, 0, 0
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() {
			for done := 0; done < each && t.Context().Err() == nil; {
				l, _, err := backends[i%2].TryAcquireSlot(t.Context(), request("g", lasting), n)
				if errors.Is(err, backend.ErrHeld) || backend.KindOf(err) == backend.Unavailable {
					time.Sleep(time.Millisecond)
					continue
				}
				if err != nil {
					t.Errorf("TryAcquireSlot: %v", err)
					return
				}
				mu.Lock()
				holding++
				most = max(most, holding)
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
				mu.Lock()
				holding--
				terms++
				mu.Unlock()
				release(t, l, 0)
				done++
			}
		})
	}
	all.Wait()
	if most != n || terms != contenders*each {
		t.Errorf("%d terms, at most %d at one time, want %d and %d", terms, most, contenders*each, n)
	}
}

func TestBackend_TryAcquireSlot_WaitsOutSlotsOfAnotherBoot(t *testing.T) {
	path := newPath(t)
	const n, ttl = 2, 400 * time.Millisecond
	before := openOn(t, path, &machine{name: "before"})
	for range n {
		takeSlot(t, before, request("g", ttl), n)
	}
	begin := time.Now()
	// Each attempt is made by a process that lives shorter than the lease.
	eventually(t, watchdog, "take-over", func() bool {
		_, _, err := openOn(t, path, &machine{name: "after", ahead: lasting}).
			TryAcquireSlot(t.Context(), request("g", lasting), n)
		return err == nil
	})
	if d := time.Since(begin); d < ttl {
		t.Errorf("taken over %v after the first look", d)
	}
}

func TestBackend_TryAcquireSlot_RefusesWhatItCannotDo(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	for _, n := range []int{0, -1} {
		if _, _, err := b.TryAcquireSlot(t.Context(), request("g", lasting), n); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%d slots: %v", n, err)
		}
	}
	_, _, err := b.TryAcquireSlot(t.Context(), request("g", time.Millisecond), 1)
	if backend.KindOf(err) != backend.Misconfigured || err.Error() != "ttl 1ms is under the minimum of 10ms" {
		t.Errorf("1 ms: %v", err)
	}
	takeSlot(t, b, request("g", lasting), 1)
	execute(t, handle(t, path), "UPDATE leader_leases SET format = 2")
	if _, _, err := b.TryAcquireSlot(t.Context(), request("g", lasting), 2); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("a slot of a later format: %v", err)
	}
}

func TestBackend_TryAcquireSlot_LosingWritesNothing(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	const n = 3
	for range n {
		takeSlot(t, b, request("g", lasting), n)
	}
	unlock := lockFile(t, path)
	defer unlock()
	for range 20 {
		wantFull(t, b, "g", n)
	}
}
