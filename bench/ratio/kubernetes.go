package main

import (
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

// pollRounds is in how many rounds at most the hand-off of client-go is measured, which takes seconds.
const pollRounds = 5

func kubernetesMeasurements(t testserver.TB, s *settings) []measurement {
	k := rig.NewKubernetes(t)
	v := &service{
		run: k.Run, floor: k.Floor, skip: k.Skip, skipFloor: k.SkipFloor, handoff: k.Handoff, raw: k.RawHandoff,
		peers: []peer[rig.Op]{{"clientgo", func(testserver.TB) rig.Op { return k.ClientGo() }}},
	}
	polling := peer[contest.Way]{"clientgo_handoff", k.ClientGoHandoff}
	few := *s
	few.plan = contest.Plan{Rounds: min(pollRounds, s.plan.Rounds), Ops: 1}
	return append(v.measurements(t, s), measurement{
		figures: []string{polling.figure()}, long: true,
		take: func() ([]figure, error) { return v.passTo(t, &few, polling) },
	})
}
