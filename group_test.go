package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// groupOn returns an elector of groups that logs nothing.
func groupOn(t testing.TB, d backend.Driver, n int, opts ...leader.Option) *leader.Group {
	t.Helper()
	g, err := leader.NewGroup(d, n, append([]leader.Option{leader.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// slotOf acquires a slot of the group "a".
func slotOf(t testing.TB, g *leader.Group, opts ...leader.RunOption) *leader.Lease {
	t.Helper()
	l, err := g.Acquire(t.Context(), "a", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// release releases leases.
func release(t testing.TB, leases ...*leader.Lease) {
	t.Helper()
	for _, l := range leases {
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// taken counts the slots below n of the group "a" that the store has as taken.
func taken(t testing.TB, store *local.Backend, n int) int {
	t.Helper()
	count := 0
	for slot := range n {
		if !holderOf(t, store, backend.SlotKey("a", slot)).Free() {
			count++
		}
	}
	return count
}

func TestGroup_ElectsAsManyAsItHasSlotsAndNoMore(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		var leases []*leader.Lease
		refused := 0
		for range 10 {
			l, err := groupOn(t, as(driverOf(store)), 3).Acquire(t.Context(), "a")
			switch {
			case err == nil:
				leases = append(leases, l)
			case errors.Is(err, leader.ErrNotElected):
				refused++
			default:
				t.Error(err)
			}
		}
		if len(leases) != 3 || refused != 7 {
			t.Fatalf("%d elected and %d refused, want 3 and 7", len(leases), refused)
		}
		var slots []int
		fences := make(map[uint64]bool)
		for _, l := range leases {
			i := l.Info()
			slots = append(slots, i.Slot)
			fences[i.Fence] = true
			if h := holderOf(t, store, i.Key); h.Fence != i.Fence || i.Key != backend.SlotKey("a", i.Slot) {
				t.Errorf("lease %+v, but the store has %+v", i, h)
			}
		}
		if slices.Sort(slots); !slices.Equal(slots, []int{0, 1, 2}) || len(fences) != 3 {
			t.Errorf("slots %v with fences %v, want each slot once and its own fence", slots, fences)
		}
		release(t, leases...)
		if n := taken(t, store, 3); n != 0 {
			t.Errorf("%d slots are taken after their release", n)
		}
	})
}

func TestGroup_ContendersAtOnceNeverExceedItsSlots(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		var o oracle
		var wg sync.WaitGroup
		for i := range 20 {
			g := groupOn(t, as(driverOf(store)), 3)
			for j := range 3 {
				wg.Go(func() {
					id := fmt.Sprint(i, j)
					r, err := g.RunIfLeader(t.Context(), "a", func(context.Context) error {
						o.begin(id)
						defer o.end(id)
						time.Sleep(time.Second)
						return nil
					}, leader.WithWaitTime(time.Hour))
					if err != nil || !r.OK() {
						t.Errorf("got %v, %v, want elected", r, err)
					}
				})
			}
		}
		wg.Wait()
		if most := o.peak(); most != 3 {
			t.Errorf("%d led at once, want 3", most)
		}
	})
}

func TestGroup_ASlotIsLostAlone(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		g := groupOn(t, as(d), 2)
		first, second := slotOf(t, g), slotOf(t, g)
		time.Sleep(10 * lease)
		if first.Err() != nil || second.Err() != nil {
			t.Fatalf("lost without a reason: %v, %v", first.Err(), second.Err())
		}
		if err := d.store.Break(t.Context(), first.Info().Key, first.Info().Fence); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease)
		wantIs(t, first.Err(), leader.ErrLeaseLost, leader.ErrTakenOver)
		if err := second.Err(); err != nil {
			t.Errorf("the other slot is lost as well: %v", err)
		}
		if next := slotOf(t, g); next.Info().Slot != first.Info().Slot || next.Info().Fence <= first.Info().Fence {
			t.Errorf("got %+v after %+v, want the lost slot with a greater fence", next.Info(), first.Info())
		}
	})
}

func TestGroup_OneElectorHasSeveralSlotsAndSkipsWithoutARequestOnceItHasAll(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		g := groupOn(t, as(d), 3, leader.WithNodeID("here"))
		leases := []*leader.Lease{slotOf(t, g), slotOf(t, g)}
		before := d.count()
		leases = append(leases, slotOf(t, g))
		if d.count() == before {
			t.Error("the third slot was given without a request")
		}
		before = d.count()
		r, err := g.RunIfLeader(t.Context(), "a", nothing)
		if err != nil || r.Reason != leader.Contended || r.Holder.Node != "here" || r.Attempts != 0 {
			t.Errorf("got %+v, %v, want contended by this node without an attempt", r, err)
		}
		if n := d.count() - before; n != 0 {
			t.Errorf("%d requests although this elector has all slots", n)
		}
		release(t, leases[1])
		release(t, slotOf(t, g))
	})
}

func TestGroup_AsksTheStoreWhileItDoesNotTrustOneOfItsSlots(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		for untrusted := range 2 {
			d := newDriver()
			g := groupOn(t, as(d), 2)
			leases := []*leader.Lease{slotOf(t, g), slotOf(t, g)}
			if err := d.store.Break(t.Context(), leases[untrusted].Info().Key, leases[untrusted].Info().Fence); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lease)
			wantIs(t, leases[untrusted].Err(), leader.ErrTakenOver)
			r, err := g.RunIfLeader(t.Context(), "a", nothing)
			if err != nil || !r.OK() || r.Lease.Slot != leases[untrusted].Info().Slot {
				t.Errorf("got %v, %v, want the slot that was lost", r, err)
			}
		}
	})
}

func TestGroup_NoReleaseRaisesItsCapacity(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		here, there := driverOf(store), driverOf(store)
		g, other := groupOn(t, as(here), 2), groupOn(t, as(there), 2)
		first := slotOf(t, g, leader.WithoutAutoExtend())
		second := slotOf(t, g)
		release(t, second)
		release(t, second) // which was released already
		time.Sleep(lease)
		others := []*leader.Lease{slotOf(t, other), slotOf(t, other)}
		wantIs(t, first.Release(t.Context()), leader.ErrExpired) // after it was taken over
		wantIs(t, first.Release(t.Context()), leader.ErrExpired)
		release(t, second)
		for _, g := range []*leader.Group{g, other, groupOn(t, as(driverOf(store)), 2)} {
			if _, err := g.Acquire(t.Context(), "a"); !errors.Is(err, leader.ErrNotElected) {
				t.Errorf("got %v, want not elected: both slots are taken", err)
			}
		}
		for _, l := range others {
			if l.Err() != nil {
				t.Errorf("a release disturbed the successor: %v", l.Err())
			}
		}
	})
}

func TestGroup_Campaign_LeadsInEachSlotAndReleasesAtTheEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		ctx, cancel := context.WithCancel(t.Context())
		var o oracle
		var wg sync.WaitGroup
		for i := range 4 {
			g := groupOn(t, as(driverOf(store)), 2)
			wg.Go(func() {
				err := g.Campaign(ctx, "a", func(ctx context.Context) error {
					o.begin(strconv.Itoa(i))
					defer o.end(strconv.Itoa(i))
					return untilDone(ctx)
				})
				wantIs(t, err, context.Canceled)
			})
		}
		time.Sleep(10 * lease)
		if now, most := o.now(), o.peak(); now != 2 || most != 2 {
			t.Errorf("%d lead, %d did at most, want 2", now, most)
		}
		cancel()
		wg.Wait()
		if n := taken(t, store, 2); n != 0 {
			t.Errorf("%d slots are taken after the end", n)
		}
	})
}

func TestGroup_State_ListsTheTakenSlots(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		g := groupOn(t, as(driverOf(store)), 3, leader.WithNamespace("ns"), leader.WithNodeID("n1"))
		if s, err := g.State(t.Context(), "a"); err != nil || s.Name != "a" || s.Slots != 3 || len(s.Active) != 0 {
			t.Errorf("got %+v, %v, want none active", s, err)
		}
		leases := make(map[int]*leader.Lease)
		for range 2 {
			l := slotOf(t, g, leader.WithMetadata(map[string]string{"k": "v"}))
			leases[l.Info().Slot] = l
		}
		s, err := g.State(t.Context(), "a")
		if err != nil || len(s.Active) != 2 || s.Active[0].Slot >= s.Active[1].Slot {
			t.Fatalf("got %+v, %v, want two, by number", s, err)
		}
		for _, a := range s.Active {
			l := leases[a.Slot]
			if l == nil || a.Node != "n1" || a.Fence != l.Info().Fence || a.Metadata["k"] != "v" || a.Name != "a" {
				t.Errorf("got %+v", a)
			}
		}
		_, err = g.State(t.Context(), "a\n")
		wantIs(t, err, leader.ErrInvalidName)
	})
}

func TestGroup_State_FailsWhereASlotCannotBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.key == "a#1" {
				return fails(errDown)
			}
			return nil
		})
		_, err := groupOn(t, d, 3).State(t.Context(), "a")
		failure, ok := errors.AsType[*leader.BackendError](err)
		if !ok || failure.Op != "inspect" || failure.Name != "a" {
			t.Errorf("got %v", err)
		}
		wantIs(t, err, leader.ErrUnavailable, errDown)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = groupOn(t, d, 3).State(ctx, "a")
		wantIs(t, err, context.Canceled)
	})
}

func TestNewGroup_RefusesFewerThanOneSlot(t *testing.T) {
	for _, n := range []int{0, -1, math.MinInt} {
		g, err := leader.NewGroup(newDriver(), n, leader.WithWaitTime(-1))
		if g != nil {
			t.Errorf("%d slots: got a group", n)
		}
		wantIs(t, err, leader.ErrInvalidOption)
		wantNames(t, err, fmt.Sprintf("slots(%d): must be at least 1", n), "WithWaitTime(-1ns)")
	}
}

func TestNewGroup_SurvivesAnAbsurdNumberOfSlots(t *testing.T) {
	for _, n := range []int{math.MaxInt32 + 1, 1 << 32, math.MaxInt} {
		d := newDriver()
		g, err := leader.NewGroup(slotted{d}, n)
		if err != nil {
			wantIs(t, err, leader.ErrInvalidOption)
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Acquire(ctx, "a"); err == nil {
			t.Errorf("%d slots: elected although the context was done", n)
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%d slots: %v", n, p)
				}
			}()
			d.onVerb(acquires, fails(errDown))
			_, err := g.Acquire(t.Context(), "a")
			wantIs(t, err, errDown)
		}()
	}
}

func TestGroup_RefusesToRunWithoutALease(t *testing.T) {
	d := newDriver()
	_, err := leader.NewGroup(d, 2, leader.WithFailureMode(leader.FailOpenRun))
	wantIs(t, err, leader.ErrInvalidOption)
	wantNames(t, err, "WithFailureMode(FailOpenRun)", "group")
	_, err = groupOn(t, d, 2).RunIfLeader(t.Context(), "a", nothing, leader.WithFailureMode(leader.FailOpenRun))
	wantIs(t, err, leader.ErrInvalidOption)
	wantNames(t, err, "WithFailureMode(FailOpenRun)", "group")
	if n := d.count(); n != 0 {
		t.Errorf("%d requests of a refused call", n)
	}
}

func TestGroup_ReportsAStoreThatFails(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		d.onVerb(acquires, fails(errDown))
		_, err := groupOn(t, as(d), 2).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable)
		r, err := groupOn(t, as(d), 2).RunIfLeader(t.Context(), "a", nothing, leader.WithFailureMode(leader.Skip))
		if err != nil || r.Reason != leader.BackendFailed {
			t.Errorf("got %v, %v, want a skip", r, err)
		}
	})
}

func TestGroup_RefusesItsOwnNameInsideItsAction(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		g, other := groupOn(t, as(driverOf(store)), 3), groupOn(t, as(driverOf(store)), 3)
		r, err := g.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			_, err := g.RunIfLeader(ctx, "a", nothing)
			wantIs(t, err, leader.ErrReentrant)
			_, err = g.Acquire(ctx, "a")
			wantIs(t, err, leader.ErrReentrant)
			if r, err := other.RunIfLeader(ctx, "a", nothing); err != nil || !r.OK() {
				t.Errorf("another elector: got %v, %v, want elected", r, err)
			}
			if r, err := g.RunIfLeader(ctx, "b", nothing); err != nil || !r.OK() {
				t.Errorf("another name: got %v, %v, want elected", r, err)
			}
			return nil
		})
		if err != nil || !r.OK() {
			t.Errorf("got %v, %v", r, err)
		}
	})
}

func TestGroup_HasNothingToDoWithAPlainElectorOfItsName(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		single := acquired(t, electorOn(t, driverOf(store)))
		release(t, slotOf(t, groupOn(t, as(driverOf(store)), 1)), single)
	})
}

func TestGroup_HooksTellTheSlot(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		var j journal
		note := func(hook string) func(context.Context, leader.LeaseInfo) {
			return func(_ context.Context, l leader.LeaseInfo) { j.add(fmt.Sprintf("%s %d %s", hook, l.Slot, l.Key)) }
		}
		d := newDriver()
		occupy(t, d.store, "a#0", lease)
		g := groupOn(t, as(d), 2, leader.WithHooks(leader.Hooks{Acquired: note("acquired"), Released: note("released")}))
		r, err := g.RunIfLeader(t.Context(), "a", nothing)
		if err != nil || r.Lease.Slot != 1 || r.Lease.Key != "a#1" {
			t.Errorf("got %+v, %v, want slot 1", r, err)
		}
		if got := j.String(); got != "acquired 1 a#1, released 1 a#1" {
			t.Errorf("hooks: %s", got)
		}
	})
}

func TestGroup_AMinLeaseKeepsItsSlotAlone(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		g := groupOn(t, as(d), 2)
		for want := range 3 {
			r, err := g.RunIfLeader(t.Context(), "a", nothing, leader.WithMinLease(minimum))
			if err != nil || r.OK() != (want < 2) {
				t.Fatalf("run %d: got %v, %v, want two elected", want, r, err)
			}
		}
		time.Sleep(minimum + time.Millisecond)
		if n := taken(t, d.store, 2); n != 0 {
			t.Errorf("%d slots are taken after the minimum", n)
		}
	})
}
