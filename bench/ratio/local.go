package main

import (
	"testing"
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

// batch is how many operations in memory are timed together.
const batch = 200

func localMeasurements(t testserver.TB, s *settings) []measurement {
	run := rig.LocalRun(t)
	return []measurement{
		{figures: []string{"run/cancelcause", "run_ns"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "run", Way: contest.Batched(batch, run)},
				contest.Contestant{Name: "cancelcause", Way: contest.Batched(batch, rig.CancelCause)})
			return []figure{
				{"run/cancelcause", times.Ratio("run", "cancelcause")},
				{"run_ns", times.In(time.Nanosecond, "run")},
			}, err
		}},
		{figures: []string{"group/single"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "single", Way: contest.Batched(batch, run)},
				contest.Contestant{Name: "group", Way: contest.Batched(batch, rig.LocalGroupRun(t, slots))})
			return []figure{{"group/single", times.Ratio("group", "single")}}, err
		}},
		{figures: []string{"allocs_per_run"}, take: func() ([]figure, error) {
			allocs, err := rounds(s.plan.Rounds, func() (n float64, err error) {
				n = testing.AllocsPerRun(s.plan.Ops, func() { err = run(t.Context()) })
				return n, err
			})
			return []figure{{"allocs_per_run", allocs}}, err
		}},
	}
}
