package schedule_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/leadertest"
	"github.com/goleader/leader/schedule"
)

func TestRun_ADelay_IsKeptBetweenRunsOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		var began, ended []time.Time
		action := func(ctx context.Context) error {
			if _, has := schedule.FireTime(ctx); has {
				t.Error("a run of a Delay has a fire time")
			}
			began = append(began, time.Now())
			time.Sleep(3 * time.Second)
			ended = append(ended, time.Now())
			return errJob
		}
		var stops []func()
		for range 3 {
			stops = append(stops, start(t, newElector(t, store), schedule.Delay(10*time.Second), action, silent))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		for _, stop := range stops {
			stop()
		}
		if len(ended) < 270 || len(ended) > 280 {
			t.Errorf("%d runs in an hour, want one every 13 s", len(ended))
		}
		for i := range len(ended) - 3 { // the last ones, of nodes that take over from one that was stopped, need no pause
			if pause := began[i+1].Sub(ended[i]); pause < 10*time.Second || pause > 12*time.Second {
				t.Errorf("%v after run %d came the next one, want 10 s", pause, i)
			}
		}
	})
}

func TestRun_ADelay_WhenItsNodeStops_AnotherGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := local.New(), &runs{}
		stop := start(t, newElector(t, store), schedule.Delay(time.Hour), seen.action(0), silent)
		time.Sleep(time.Second)
		defer start(t, newElector(t, store), schedule.Delay(time.Hour), seen.action(0), silent)()
		time.Sleep(10 * time.Minute)
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the pause held Run up for %v", took)
		}
		time.Sleep(5 * time.Second)
		if n := len(seen.list()); n != 2 {
			t.Errorf("%d runs, want one by each node", n)
		}
	})
}

func TestRun_ADelay_WithAWaitTimeOfZero_DoesNotHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		stop := start(t, leadertest.Never("node-b"), schedule.Delay(10*time.Second), nothing, silent,
			schedule.WithRunOptions(leader.WithWaitTime(0)),
			schedule.WithReport(func(context.Context, schedule.Tick) { n++ }))
		time.Sleep(time.Minute + time.Second)
		stop()
		if n != 7 {
			t.Errorf("asked %d times in a minute, want every 10 s", n)
		}
	})
}

func TestRun_ADelay_WhoseLeaseEndsInThePause_IsKeptByItsNode(t *testing.T) {
	for _, opt := range []leader.RunOption{leader.WithMaxHold(20 * time.Second), leader.WithoutAutoExtend()} {
		synctest.Test(t, func(t *testing.T) {
			seen := &runs{}
			stop := start(t, newElector(t, local.New()), schedule.Delay(10*time.Minute), seen.action(0), silent,
				schedule.WithRunOptions(opt))
			time.Sleep(time.Hour - time.Second)
			stop()
			if n := len(seen.list()); n != 6 {
				t.Errorf("%d runs in an hour, want one every ten minutes", n)
			}
		})
	}
}

func TestRun_ADelay_WithDrain_EndsAtOnceInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := start(t, newElector(t, local.New()), schedule.Delay(time.Hour), nothing, silent, schedule.WithDrain(time.Hour))
		time.Sleep(time.Minute)
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Run went on for %v", took)
		}
	})
}

func TestRun_ADelay_AFailureIsLoggedBeforeThePause_AndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		stop := start(t, newElector(t, local.New()), schedule.Delay(time.Hour), func(context.Context) error { return errJob },
			schedule.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		for i, after := range []time.Duration{time.Second, time.Hour} {
			time.Sleep(after)
			synctest.Wait()
			if n := strings.Count(logged.String(), "the job failed"); n != i+1 {
				t.Errorf("logged %d times, want %d:\n%s", n, i+1, logged.String())
			}
		}
		stop()
	})
}
