package main

import (
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

func mysqlMeasurements(t testserver.TB, s *settings) []measurement {
	m := rig.NewMySQL(t)
	return []measurement{
		{figures: []string{"run/floor", "run/naive", "run_us", "peer:getlock/ours"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "run", Way: contest.Timed(m.Run(t))},
				contest.Contestant{Name: "floor", Way: contest.Timed(m.Floor(t))},
				contest.Contestant{Name: "naive", Way: contest.Timed(m.Naive(t))},
				contest.Contestant{Name: "getlock", Way: contest.Timed(m.GetLock())})
			return []figure{
				{"run/floor", times.Ratio("run", "floor")},
				{"run/naive", times.Ratio("run", "naive")},
				{"run_us", times.In(time.Microsecond, "run")},
				{"peer:getlock/ours", times.Ratio("getlock", "run")},
			}, err
		}},
		{figures: []string{"skip/floor", "skip_us"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "skip", Way: contest.Timed(m.Skip(t))},
				contest.Contestant{Name: "floor", Way: contest.Timed(m.SkipFloor(t))})
			return []figure{
				{"skip/floor", times.Ratio("skip", "floor")},
				{"skip_us", times.In(time.Microsecond, "skip")},
			}, err
		}},
	}
}
