package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/schedule"
)

// checkNoneTwice fails for each fire time that was run more than once.
func checkNoneTwice(t *testing.T, fires []time.Time) {
	t.Helper()
	seen := make(map[int64]bool)
	for _, fire := range fires {
		if seen[fire.UnixNano()] {
			t.Errorf("%v was run twice", fire)
		}
		seen[fire.UnixNano()] = true
	}
}

func TestRun_WaitsLongerThanTheMarkIsKept_DoesNotRunTheFireTimeAgain(t *testing.T) {
	for what, c := range map[string]struct {
		every schedule.Every
		takes time.Duration
		opts  []schedule.Option
	}{
		"a wait time of its own": {
			schedule.Every(10 * time.Minute), 3 * time.Hour,
			[]schedule.Option{schedule.WithRunOptions(leader.WithWaitTime(4 * time.Hour))},
		},
		"RunOnce, and a short keep": {
			schedule.Every(time.Minute), 30 * time.Second,
			[]schedule.Option{schedule.WithMissed(schedule.RunOnce), schedule.WithKeep(5 * time.Second)},
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, seen := local.New(), &runs{}
				for range 2 {
					t.Cleanup(start(t, newElector(t, store), c.every, seen.action(c.takes), append(c.opts, silent)...))
					time.Sleep(time.Second)
				}
				time.Sleep(6 * c.takes)
				fires := seen.list()
				checkNoneTwice(t, fires)
				if len(fires) < 2 {
					t.Errorf("%d runs, want one after the other", len(fires))
				}
			})
		})
	}
}
