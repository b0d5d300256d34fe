package main

import (
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

func dynamoMeasurements(t testserver.TB, s *settings) []measurement {
	d := rig.NewDynamo(t)
	return []measurement{
		{figures: []string{"run/floor", "run/naive", "run_us"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "run", Way: contest.Timed(d.Run(t))},
				contest.Contestant{Name: "floor", Way: contest.Timed(d.Floor(t))},
				contest.Contestant{Name: "naive", Way: contest.Timed(d.Naive(t))})
			return []figure{
				{"run/floor", times.Ratio("run", "floor")},
				{"run/naive", times.Ratio("run", "naive")},
				{"run_us", times.In(time.Microsecond, "run")},
			}, err
		}},
		{figures: []string{"skip/floor", "skip_us"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "skip", Way: contest.Timed(d.Skip(t))},
				contest.Contestant{Name: "floor", Way: contest.Timed(d.SkipFloor(t))})
			return []figure{
				{"skip/floor", times.Ratio("skip", "floor")},
				{"skip_us", times.In(time.Microsecond, "skip")},
			}, err
		}},
		{figures: []string{"handoff_p50_ms"}, long: true, take: func() ([]figure, error) {
			plan := contest.Plan{Rounds: s.plan.Rounds, Ops: max(1, s.plan.Ops/100)}
			times, err := plan.Run(t.Context(), contest.Contestant{Name: "handoff", Way: d.Handoff(t)})
			return []figure{{"handoff_p50_ms", times.In(time.Millisecond, "handoff")}}, err
		}},
	}
}
