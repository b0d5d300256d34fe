package gocronleader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/leadertest"
	"github.com/goleader/leader/schedule/gocronleader"
)

// campaign runs an elector until the test stops it.
func campaign(t *testing.T, e leader.Elector, opts ...leader.RunOption) (elector *gocronleader.Elector, stop func()) {
	t.Helper()
	elector = gocronleader.NewElector(e, "scheduler", opts...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- elector.Run(ctx) }()
	return elector, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v, want its context's end", err)
		}
	}
}

// awaitLeader waits until an elector leads.
func awaitLeader(t *testing.T, e *gocronleader.Elector) {
	t.Helper()
	for end := time.Now().Add(watchdog); e.IsLeader(t.Context()) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not elected in time")
		}
	}
}

func ledBy(e gocron.Elector) []gocron.SchedulerOption {
	return []gocron.SchedulerOption{gocron.WithDistributedElector(e)}
}

func TestElector_OneLeads_AndAnotherWhenItStops(t *testing.T) {
	store := local.New()
	one, stopOne := campaign(t, newElector(t, store))
	awaitLeader(t, one)
	other, stopOther := campaign(t, newElector(t, store))
	defer stopOther()
	if err := other.IsLeader(t.Context()); !errors.Is(err, leader.ErrNotElected) {
		t.Errorf("the other: %v, want ErrNotElected", err)
	}
	runOnce(t, "map[success:1]", ledBy(one), func() {})
	runOnce(t, "map[skip:1]", ledBy(other), func() { t.Error("ran on a node that does not lead") })
	stopOne()
	awaitLeader(t, other)
	if err := one.IsLeader(t.Context()); !errors.Is(err, leader.ErrNotElected) {
		t.Errorf("after its end: %v, want ErrNotElected", err)
	}
}

func TestElector_Task_RunsUnderTheLease(t *testing.T) {
	e, stop := campaign(t, newElector(t, local.New()))
	defer stop()
	awaitLeader(t, e)
	runOnce(t, "map[success:1]", ledBy(e), e.Task(func(ctx context.Context) error {
		if l, trusted := leader.LeaseFrom(ctx); !trusted || l.Info().Name != "scheduler" {
			t.Error("no trusted lease in the context of the job")
		}
		return nil
	}))
	runOnce(t, "map[fail:1]", ledBy(e), e.Task(func(context.Context) error { return errJob }))
}

func TestElector_Task_ThatLosesTheLease_IsCountedAsFailed(t *testing.T) {
	e, stop := campaign(t, leadertest.Script(leadertest.LostAfter(3*time.Second), leadertest.HeldBy("node-b")))
	defer stop()
	awaitLeader(t, e)
	runOnce(t, "map[fail:1]", ledBy(e), e.Task(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(watchdog):
			t.Error("the context of the job does not end with the lease")
		}
		return nil
	}))
	if err := e.IsLeader(t.Context()); !errors.Is(err, leader.ErrNotElected) {
		t.Errorf("after the loss: %v, want ErrNotElected", err)
	}
}

func TestElector_Task_OnANodeThatDoesNotLead_DoesNotRun(t *testing.T) {
	e := gocronleader.NewElector(leadertest.Never("node-b"), "scheduler")
	err := e.Task(func(context.Context) error {
		t.Error("ran")
		return nil
	})(t.Context())
	if !errors.Is(err, leader.ErrNotElected) {
		t.Errorf("%v, want ErrNotElected", err)
	}
}
