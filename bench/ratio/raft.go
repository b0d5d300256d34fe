package main

import (
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

func raftMeasurements(t testserver.TB, s *settings) []measurement {
	r := rig.NewRaft(t)
	return []measurement{
		{figures: []string{"run/entry", "forwarded/entry", "run_us"}, take: func() ([]figure, error) {
			times, err := entries(t, s, r)
			return []figure{
				{"run/entry", times.Ratio("run", "entry")},
				{"forwarded/entry", times.Ratio("forwarded", "entry")},
				{"run_us", times.In(time.Microsecond, "run")},
			}, err
		}},
		{figures: []string{"memory_run/entry", "memory_run_us"}, take: func() ([]figure, error) {
			times, err := entries(t, s, rig.NewRaftInMemory(t))
			return []figure{
				{"memory_run/entry", times.Ratio("run", "entry")},
				{"memory_run_us", times.In(time.Microsecond, "run")},
			}, err
		}},
		{figures: []string{"skip/verify", "skip_us"}, take: func() ([]figure, error) {
			times, err := s.plan.Run(t.Context(),
				contest.Contestant{Name: "skip", Way: contest.Timed(r.Skip(t))},
				contest.Contestant{Name: "verify", Way: contest.Timed(r.Verify())})
			return []figure{
				{"skip/verify", times.Ratio("skip", "verify")},
				{"skip_us", times.In(time.Microsecond, "skip")},
			}, err
		}},
		{figures: []string{"handoff/raw", "handoff_p50_ms"}, take: func() ([]figure, error) {
			plan := contest.Plan{Rounds: s.plan.Rounds, Ops: max(1, s.plan.Ops/6)}
			times, err := plan.Run(t.Context(),
				contest.Contestant{Name: "handoff", Way: r.Handoff(t)},
				contest.Contestant{Name: "raw", Way: r.RawHandoff()})
			return []figure{
				{"handoff/raw", times.Ratio("handoff", "raw")},
				{"handoff_p50_ms", times.In(time.Millisecond, "handoff")},
			}, err
		}},
	}
}

// entries times runs, on the raft leader and on another node, beside one committed entry; each takes two.
func entries(t testserver.TB, s *settings, r *rig.Raft) (contest.Times, error) {
	return s.plan.Run(t.Context(),
		contest.Contestant{Name: "run", Way: contest.Timed(r.Run(t))},
		contest.Contestant{Name: "forwarded", Way: contest.Timed(r.Forwarded(t))},
		contest.Contestant{Name: "entry", Way: contest.Timed(r.Entry())})
}
