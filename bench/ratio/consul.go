package main

import (
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

func consulMeasurements(t testserver.TB, s *settings) []measurement {
	c := rig.NewConsul(t)
	v := &service{
		run: c.Run, floor: c.Floor, skip: c.Skip, skipFloor: c.SkipFloor, handoff: c.Handoff, raw: c.RawHandoff,
		peers:        []peer[rig.Op]{{"lock", c.Lock}},
		handoffPeers: []peer[contest.Way]{{"lock_handoff", c.LockHandoff}},
	}
	return v.measurements(t, s)
}
