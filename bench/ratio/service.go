package main

import (
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

// service is what is measured alike on each service that is made for coordination. Whatever takes a server's time is
// started only when it is measured.
type service struct {
	run, floor      func(t testserver.TB) rig.Op
	skip, skipFloor func(t testserver.TB) rig.Op
	handoff, raw    func(t testserver.TB) contest.Way

	peers        []peer[rig.Op]
	handoffPeers []peer[contest.Way]
}

// peer is another library's way to do the same.
type peer[W any] struct {
	name  string
	start func(t testserver.TB) W
}

// figure is the peer's time divided by ours.
func (p *peer[W]) figure() string { return "peer:" + p.name + "/ours" }

func (v *service) measurements(t testserver.TB, s *settings) []measurement {
	runs := []string{"run/floor", "run_us"}
	for _, p := range v.peers {
		runs = append(runs, p.figure())
	}
	list := []measurement{
		{figures: runs, take: func() ([]figure, error) { return v.runs(t, s) }},
		{figures: []string{"skip/floor", "skip_us"}, take: func() ([]figure, error) { return v.skips(t, s) }},
		{figures: []string{"handoff/raw", "handoff_p50_ms"}, take: func() ([]figure, error) { return v.handoffs(t, s) }},
	}
	for _, p := range v.handoffPeers {
		list = append(list, measurement{
			figures: []string{p.figure()}, take: func() ([]figure, error) { return v.passTo(t, s, p) },
		})
	}
	return list
}

func (v *service) runs(t testserver.TB, s *settings) ([]figure, error) {
	all := []contest.Contestant{
		{Name: "run", Way: contest.Timed(v.run(t))},
		{Name: "floor", Way: contest.Timed(v.floor(t))},
	}
	for _, p := range v.peers {
		all = append(all, contest.Contestant{Name: p.name, Way: contest.Timed(p.start(t))})
	}
	times, err := s.plan.Run(t.Context(), all...)
	list := []figure{{"run/floor", times.Ratio("run", "floor")}, {"run_us", times.In(time.Microsecond, "run")}}
	for _, p := range v.peers {
		list = append(list, figure{p.figure(), times.Ratio(p.name, "run")})
	}
	return list, err
}

func (v *service) skips(t testserver.TB, s *settings) ([]figure, error) {
	times, err := s.plan.Run(t.Context(),
		contest.Contestant{Name: "skip", Way: contest.Timed(v.skip(t))},
		contest.Contestant{Name: "floor", Way: contest.Timed(v.skipFloor(t))})
	return []figure{
		{"skip/floor", times.Ratio("skip", "floor")},
		{"skip_us", times.In(time.Microsecond, "skip")},
	}, err
}

// handoffs takes fewer operations, as the waits have to settle in between.
func (v *service) handoffs(t testserver.TB, s *settings) ([]figure, error) {
	plan := contest.Plan{Rounds: s.plan.Rounds, Ops: max(1, s.plan.Ops/6)}
	times, err := plan.Run(t.Context(),
		contest.Contestant{Name: "handoff", Way: v.handoff(t)},
		contest.Contestant{Name: "raw", Way: v.raw(t)})
	return []figure{
		{"handoff/raw", times.Ratio("handoff", "raw")},
		{"handoff_p50_ms", times.In(time.Millisecond, "handoff")},
	}, err
}

// passTo takes still fewer operations: some peers take long to wait.
func (v *service) passTo(t testserver.TB, s *settings, p peer[contest.Way]) ([]figure, error) {
	plan := contest.Plan{Rounds: s.plan.Rounds, Ops: max(1, s.plan.Ops/75)}
	times, err := plan.Run(t.Context(),
		contest.Contestant{Name: "handoff", Way: v.handoff(t)},
		contest.Contestant{Name: p.name, Way: p.start(t)})
	return []figure{{p.figure(), times.Ratio(p.name, "handoff")}}, err
}
