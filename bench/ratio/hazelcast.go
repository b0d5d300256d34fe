package main

import (
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

func hazelcastMeasurements(t testserver.TB, s *settings) []measurement {
	h := rig.NewHazelcast(t)
	v := &service{
		run: h.Run, floor: h.Floor, skip: h.Skip, skipFloor: h.SkipFloor, handoff: h.Handoff, raw: h.RawHandoff,
	}
	bare := measurement{figures: []string{"run/put_remove", "run/repeat_floor"}, take: func() ([]figure, error) {
		times, err := s.plan.Run(t.Context(),
			contest.Contestant{Name: "run", Way: contest.Timed(h.Run(t))},
			contest.Contestant{Name: "put_remove", Way: contest.Timed(h.PutRemove(t))},
			contest.Contestant{Name: "repeat_floor", Way: contest.Timed(h.RepeatFloor(t))})
		return []figure{
			{"run/put_remove", times.Ratio("run", "put_remove")},
			{"run/repeat_floor", times.Ratio("run", "repeat_floor")},
		}, err
	}}
	// What the hand-offs register for the map of leases would weigh on its changes alone.
	return append([]measurement{bare}, v.measurements(t, s)...)
}
