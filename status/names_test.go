package status_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/status"
)

func TestPage_LeavesOutWhatIsBeyondItsLimit(t *testing.T) {
	d := local.New()
	e := newElector(t, d, "a")
	var first *leader.Lease
	for i := range 5 {
		l := acquire(t, e, fmt.Sprint("job-", i))
		if first == nil {
			first = l
		}
	}
	p := newPage(t, d, &status.Options{MaxNames: 3, Interval: time.Nanosecond})
	if s := snapshot(t, p); len(s.Locks) != 3 || s.Omitted != 2 {
		t.Errorf("%d names are shown and %d are not, want 3 and 2", len(s.Locks), s.Omitted)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, p)
	for _, l := range s.Locks {
		if l.Status != "Occupied" {
			t.Errorf("%q is shown, which is free, in place of one that is not", l.Name)
		}
	}
	if len(s.Locks) != 3 || s.Omitted != 1 {
		t.Errorf("%d names are shown and %d are not, want 3 and 1", len(s.Locks), s.Omitted)
	}
}

func TestPage_KeepsNamesThatWereGiven(t *testing.T) {
	d := local.New()
	p := newPage(t, d, &status.Options{MaxNames: 2})
	p.AddNames("mine", "ours")
	for i := range 3 {
		acquire(t, newElector(t, d, "a"), fmt.Sprint("job-", i))
	}
	s := snapshot(t, p)
	s.lock(t, "mine")
	s.lock(t, "ours")
	if s.Omitted != 3 {
		t.Errorf("%d names are left out, want 3", s.Omitted)
	}
}

func TestPage_WithoutALister_ShowsWhatItsElectorsHaveSeen(t *testing.T) {
	d := newStore()
	p := newPage(t, plain{d}, &status.Options{Interval: time.Nanosecond})
	p.AddNames("given")
	hooks := leader.WithHooks(p.Hooks())
	acquire(t, newElector(t, d, "other"), "tried")
	acquire(t, newElector(t, d, "other"), "unknown")
	e := newElector(t, d, "mine", hooks)
	r, err := e.RunIfLeader(t.Context(), "tried", func(context.Context) error { return nil })
	if err != nil || r.Outcome != leader.Skipped {
		t.Fatalf("%v, %v; want to be skipped", r, err)
	}
	acquire(t, e, "led")
	g, err := leader.NewGroup(d, 2, leader.WithNodeID("mine"), hooks)
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, g, "pool")
	s := snapshot(t, p)
	if len(s.Locks) != 4 {
		t.Fatalf("shown are %+v, want given, led, pool and tried", s.Locks)
	}
	if l := s.lock(t, "tried"); l.LeaderID == nil || *l.LeaderID != "other" {
		t.Errorf("the name that was tried is shown as %+v, want it led by the other", l)
	}
	if l := s.lock(t, "led"); l.LeaderID == nil || *l.LeaderID != "mine" {
		t.Errorf("the name that is led here is shown as %+v", l)
	}
	if l := s.lock(t, "pool"); !l.Group || len(l.Slots) != 1 {
		t.Errorf("the group is shown as %+v", l)
	}
	if l := s.lock(t, "given"); l.Status != "Empty" {
		t.Errorf("the given name is shown as %+v", l)
	}
	if d.lists.Load() != 0 {
		t.Error("the store was asked for a list")
	}
	d.down(errDown)
	if s := snapshot(t, p); !s.Stale || len(s.Locks) != 4 {
		t.Errorf("when the store is down, stale is %t, and %d names are shown", s.Stale, len(s.Locks))
	}
}

func TestPage_WithoutALister_MakesRoomForTheNewestNames(t *testing.T) {
	d := newStore()
	p := newPage(t, plain{d}, &status.Options{Interval: time.Nanosecond, MaxNames: 3})
	p.AddNames("given")
	e := newElector(t, d, "mine", leader.WithHooks(p.Hooks()))
	acquire(t, e, "led")
	snapshot(t, p)
	for i := range 100 {
		if _, err := e.RunIfLeader(t.Context(), fmt.Sprint("job-", i), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s := snapshot(t, p)
	if len(s.Locks) != 3 {
		t.Errorf("shown are %+v, want three", s.Locks)
	}
	s.lock(t, "given")
	s.lock(t, "job-99")
	if l := s.lock(t, "led"); l.LeaderID == nil {
		t.Errorf("%+v is not led", l)
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	h, _ := inMemory()
	for name, try := range map[string]func() (*status.Page, error){
		"no driver":        func() (*status.Page, error) { return status.New(nil, nil) },
		"relative path":    func() (*status.Page, error) { return status.New(local.New(), &status.Options{Path: "x"}) },
		"path ends with /": func() (*status.Page, error) { return status.New(local.New(), &status.Options{Path: "/x/"}) },
		"root":             func() (*status.Page, error) { return status.New(local.New(), &status.Options{Path: "/"}) },
		"no history":       func() (*status.Page, error) { return status.New(local.New(), &status.Options{Authorize: allow("a")}) },
		"leases cannot break": func() (*status.Page, error) {
			return status.New(plain{local.New()}, &status.Options{Authorize: allow("a"), History: h})
		},
	} {
		if p, err := try(); err == nil || p != nil {
			t.Errorf("%s: %v, %v; want an error", name, p, err)
		}
	}
}
