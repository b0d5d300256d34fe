package main

import (
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

func zookeeperMeasurements(t testserver.TB, s *settings) []measurement {
	z := rig.NewZooKeeper(t)
	v := &service{
		run: z.Run, floor: z.Floor, skip: z.Skip, skipFloor: z.SkipFloor, handoff: z.Handoff, raw: z.RawHandoff,
		peers:        []peer[rig.Op]{{"lock", func(testserver.TB) rig.Op { return z.Lock() }}},
		handoffPeers: []peer[contest.Way]{{"lock_handoff", z.LockHandoff}},
	}
	return v.measurements(t, s)
}
