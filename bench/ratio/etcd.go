package main

import (
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

// manyKeys is how many leases etcd keeps, each of which is a lease of its own there.
const manyKeys = 2_000

func etcdMeasurements(t testserver.TB, s *settings) []measurement {
	e := rig.NewEtcd(t)
	v := &service{
		run: e.Run, floor: e.Floor, skip: e.Skip, skipFloor: e.SkipFloor, handoff: e.Handoff, raw: e.RawHandoff,
		peers: []peer[rig.Op]{
			{"mutex", e.Mutex},
			{"election", e.Election},
			{"session", func(testserver.TB) rig.Op { return e.SessionMutex() }},
		},
		handoffPeers: []peer[contest.Way]{{"mutex_handoff", e.MutexHandoff}},
	}
	renewals := func() ([]figure, error) {
		held, err := e.Hold(t, manyKeys, s.renew)
		return []figure{
			{"renew2k_lost", contest.Single(float64(held.Lost))},
			{"renew2k_goroutines", highest(held.Goroutines)},
			{"renew2k_renewals_per_s", contest.Single(float64(held.Renewals) / s.renew.Seconds())},
		}, err
	}
	return append(v.measurements(t, s), measurement{
		figures: []string{"renew2k_lost", "renew2k_goroutines", "renew2k_renewals_per_s"}, long: true, take: renewals,
	})
}
