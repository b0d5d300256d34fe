package leadertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/jobs"
	"github.com/goleader/leader/leadertest"
	"github.com/goleader/leader/schedule"
)

func TestAlways_WithARunKey_RunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leadertest.Always()
		key := leader.WithRunKey("2026-11-29", time.Hour)
		if r := run(t, t.Context(), e, nothing, key); !r.OK() {
			t.Errorf("first: %v, want elected", r)
		}
		if r := run(t, t.Context(), e, nothing, key); r.Reason != leader.AlreadyRan {
			t.Errorf("again: %v, want AlreadyRan", r)
		}
		if r := run(t, t.Context(), leadertest.Always(), nothing, key); !r.OK() {
			t.Errorf("on another elector: %v, want elected", r)
		}
		time.Sleep(time.Hour)
		if r := run(t, t.Context(), e, nothing, key); !r.OK() {
			t.Errorf("after the key's time: %v, want elected", r)
		}
	})
}

func TestAlways_WithRetryFailedRun_RunsAgain(t *testing.T) {
	e, failed := leadertest.Always(), errors.New("no paper")
	opts := []leader.RunOption{leader.WithRunKey("1", time.Hour), leader.WithRetryFailedRun()}
	for range 2 {
		r := run(t, t.Context(), e, func(context.Context) error { return failed }, opts...)
		if !errors.Is(r.Err, failed) {
			t.Errorf("%v, want the failure", r)
		}
	}
}

// jobRuns counts the runs of an hourly job in a day of virtual time.
func jobRuns(t *testing.T, e leader.Elector) (runs, skipped int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour+time.Minute)
	defer cancel()
	err := schedule.Run(ctx, e, "job", schedule.Every(time.Hour), func(context.Context) error {
		runs++
		return nil
	}, schedule.WithReport(func(_ context.Context, tick schedule.Tick) {
		if tick.Result.Reason == leader.Contended {
			skipped++
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	return runs, skipped
}

func TestElectors_RunScheduledJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if runs, skipped := jobRuns(t, leadertest.Always()); runs != 24 || skipped != 0 {
			t.Errorf("Always: %d runs, %d skipped; want 24 runs", runs, skipped)
		}
		if runs, skipped := jobRuns(t, leadertest.Never("node-b")); runs != 0 || skipped != 24 {
			t.Errorf("Never: %d runs, %d skipped; want 24 skipped", runs, skipped)
		}
		once := leadertest.Script(leadertest.Elected(), leadertest.HeldBy("node-b"))
		if runs, skipped := jobRuns(t, once); runs != 1 || skipped != 23 {
			t.Errorf("Script: %d runs, %d skipped; want one run", runs, skipped)
		}
	})
}

func TestElectors_RunDeclaredJobs(t *testing.T) {
	c := jobs.Config{Service: "shop", Jobs: []jobs.Job{{Name: "report", Every: "1m"}}}
	if _, err := jobs.New(leadertest.Always(), c, map[string]leader.Action{"report": nothing}); err != nil {
		t.Error(err)
	}
}
