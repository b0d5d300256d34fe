package backendtest

import (
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// slotsNeverExceedN lets some holders go away without a release, as isSerial does.
func slotsNeverExceedN(t *caseT) {
	a, b := t.slotPair()
	const n = 3
	slots := make([]history, n)
	start := time.Now()
	end := start.Add(max(2*time.Second, 3*t.ttl()))
	var deaths atomic.Int64 // one is due every other TTL, counted from the first
	t.together(contenders, func(i int) {
		d := a
		if i%2 == 1 {
			d = b
		}
		for time.Now().Before(end) && !t.Failed() {
			g, err := t.trySlot(d, t.request("job", t.ttl()*time.Duration(1+i%3)), n)
			if err != nil {
				if !errors.Is(err, backend.ErrHeld) {
					t.Errorf("TryAcquireSlot: %v, want success or ErrHeld", err)
				}
				t.pause(time.Millisecond)
				continue
			}
			t.pause(time.Duration(1+i) * 400 * time.Microsecond)
			if time.Now().After(start.Add(t.ttl() * time.Duration(1+2*deaths.Load()))) {
				deaths.Add(1)
				slots[g.slot].add(t.term(g.grant, g.sure()))
				continue
			}
			slots[g.slot].add(t.term(g.grant, time.Now()))
			if err := g.Release(t.Context(), 0); err != nil {
				t.Errorf("Release: %v, want nil", err)
			}
		}
	})
	t.pauseUntil(t.judgeSlots(slots, deaths.Load()))
	for range n {
		t.takenSlot(b, t.request("job", t.long()), n, time.Now())
	}
	t.noSlot(a, "job", n)
}

// slotsFindAFreeOne has as many slots as contenders, so that whoever has none finds one free, though not always the same. A
// look at all slots need not be of one instant, so that it may be outrun now and then.
func slotsFindAFreeOne(t *caseT) {
	a, b := t.slotPair()
	const n, terms, looks = 3, 40, 3
	t.together(n, func(i int) {
		d := a
		if i%2 == 1 {
			d = b
		}
		for range terms {
			req := t.request("job", t.long())
			g, err := t.trySlot(d, req, n)
			for look := 1; errors.Is(err, backend.ErrHeld) && look < looks; look++ {
				g, err = t.trySlot(d, req, n)
			}
			if err != nil {
				t.Fatalf("%d attempts at a free slot: %v", looks, err)
			}
			t.release(g.grant, 0)
		}
	})
}

func slotsRepeatBesideChanges(t *caseT) {
	a, b := t.slotPair()
	const n, repeats = 4, 40
	g := t.takeSlot(a, t.request("job", t.long()), n)
	var done atomic.Bool
	t.together(3, func(i int) {
		if i == 0 {
			defer done.Store(true)
			for range repeats {
				again := t.takeSlot(a, g.asked, n)
				if again.slot != g.slot || again.Fence() != g.Fence() {
					t.Fatalf("the repeated attempt got slot %d with fence %d, want %d with %d",
						again.slot, again.Fence(), g.slot, g.Fence())
				}
			}
			return
		}
		for !done.Load() && !t.Failed() {
			t.release(t.takeSlot(b, t.request("job", t.long()), n).grant, 0)
		}
	})
	t.release(g.grant, 0)
	for slot := range n {
		t.free(b, backend.SlotKey("job", slot))
	}
}

// judgeSlots checks each slot's history, counts over all of them, and returns the end of the last term.
func (t *caseT) judgeSlots(slots []history, deaths int64) (last time.Time) {
	t.Helper()
	var all []term
	var faults []string
	for i := range slots {
		terms := slots[i].sorted()
		faults = append(faults, check(terms)...)
		all = append(all, terms...)
	}
	peak := most(all)
	t.Logf("%d terms, %d of them ended by expiry, at most %d of %d slots held at once", len(all), deaths, peak, len(slots))
	if len(all) == 0 {
		t.Fatal("nobody ever got a slot")
	}
	if peak > len(slots) || len(faults) > 0 {
		file := filepath.Join(t.ArtifactDir(), "history.json")
		if err := write(file, all); err != nil {
			t.Error(err)
		}
		t.Fatalf("at most %d of %d slots were held at once, see %s; what is wrong with single slots: %q",
			peak, len(slots), file, faults[:min(len(faults), 3)])
	}
	return slices.MaxFunc(all, func(a, b term) int { return a.End.Compare(b.End) }).End
}

// most is the largest number of terms at one instant.
func most(terms []term) int {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, t := range terms {
		if !t.empty() {
			edges = append(edges, edge{t.Start, 1}, edge{t.End, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.step - b.step // who leaves makes room first
	})
	now, peak := 0, 0
	for _, e := range edges {
		now += e.step
		peak = max(peak, now)
	}
	return peak
}
