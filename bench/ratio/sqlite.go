package main

import (
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

func sqliteMeasurements(t testserver.TB, s *settings) []measurement {
	lite := rig.NewSQLite(t)
	return []measurement{
		{figures: []string{"run/floor", "run/statements", "run_us"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "run", Way: contest.Timed(lite.Run(t))},
				contest.Contestant{Name: "floor", Way: contest.Timed(lite.Floor(t))},
				contest.Contestant{Name: "statements", Way: contest.Timed(lite.Statements(t))})
			return []figure{
				{"run/floor", times.Ratio("run", "floor")},
				{"run/statements", times.Ratio("run", "statements")},
				{"run_us", times.In(time.Microsecond, "run")},
			}, err
		}},
		{figures: []string{"skip/floor"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "skip", Way: contest.Timed(lite.Skip(t))},
				contest.Contestant{Name: "floor", Way: contest.Timed(lite.SkipFloor(t))})
			return []figure{{"skip/floor", times.Ratio("skip", "floor")}}, err
		}},
		{figures: []string{"handoff_p50_ms"}, take: func() ([]figure, error) {
			plan := contest.Plan{Rounds: s.plan.Rounds, Ops: max(1, s.plan.Ops/30)}
			times, err := plan.Run(t.Context(), contest.Contestant{Name: "handoff", Way: lite.Handoff(t)})
			return []figure{{"handoff_p50_ms", times.In(time.Millisecond, "handoff")}}, err
		}},
	}
}
