package main

import (
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
)

const (
	slots     = 3
	manySlots = 10
	// candidates is how many are listed.
	candidates = 1_000
)

func (m *redisMeasures) abilities() ([]figure, error) {
	times, err := m.plan.Run(m.t.Context(),
		contest.Contestant{Name: "run", Way: contest.Timed(m.redis.Run(m.t))},
		contest.Contestant{Name: "group", Way: contest.Timed(m.redis.GroupRun(m.t, slots))},
		contest.Contestant{Name: "group10", Way: contest.Timed(m.redis.GroupRun(m.t, manySlots))},
		contest.Contestant{Name: "strategic", Way: contest.Timed(m.redis.StrategicRun(m.t))},
		contest.Contestant{Name: "runkey", Way: contest.Timed(m.redis.RunKeyRun(m.t))})
	return []figure{
		{"group/single", times.Ratio("group", "run")},
		{"group10/single", times.Ratio("group10", "run")},
		{"strategic/run", times.Ratio("strategic", "run")},
		{"runkey/run", times.Ratio("runkey", "run")},
	}, err
}

func (m *redisMeasures) strategicRequests() ([]figure, error) {
	return m.count("strategic_requests", m.redis.StrategicRequests(m.t))
}

func (m *redisMeasures) strategicSkipRequests() ([]figure, error) {
	return m.count("strategic_skip_requests", m.redis.StrategicSkipRequests(m.t))
}

// count takes the worst round: a single request too many is one.
func (m *redisMeasures) count(name string, c rig.Count) ([]figure, error) {
	requests := make([]float64, m.plan.Rounds)
	for i := range requests {
		var err error
		if requests[i], err = c(m.t.Context(), m.plan.Ops); err != nil {
			return nil, err
		}
	}
	return []figure{{name, highest(requests)}}, nil
}

// listing takes fewer operations, as each takes a few ms.
func (m *redisMeasures) listing() ([]figure, error) {
	plan := contest.Plan{Rounds: m.plan.Rounds, Ops: max(1, m.plan.Ops/10)}
	times, err := plan.Run(m.t.Context(),
		contest.Contestant{Name: "listing", Way: contest.Timed(m.redis.Listing(m.t, candidates))})
	return []figure{{"list1000_ms", times.In(time.Millisecond, "listing")}}, err
}
