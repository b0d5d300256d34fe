package main

import (
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

// manyRows is how many leases PostgreSQL keeps, each renewal of which waits for the disk.
const manyRows = 2_000

func postgresMeasurements(t testserver.TB, s *settings) []measurement {
	m := &postgresMeasures{t: t, settings: s, postgres: rig.NewPostgres(t)}
	return []measurement{
		{figures: []string{"run/floor", "run/naive", "run_us", "peer:shedlock/ours", "peer:advisory/ours"}, take: m.runs},
		{figures: []string{"skip/floor", "skip_us"}, take: m.skips},
		{figures: []string{"handoff/raw", "handoff_p50_ms"}, take: m.handoffs},
		{figures: []string{"renew2k_lost", "renew2k_connections", "renew2k_renewals_per_s"}, long: true, take: m.renewals},
	}
}

// postgresMeasures are the measurements on one PostgreSQL.
type postgresMeasures struct {
	*settings

	t        testserver.TB
	postgres *rig.Postgres
}

func (m *postgresMeasures) runs() ([]figure, error) {
	times, err := m.plan.Run(m.t.Context(),
		contest.Contestant{Name: "run", Way: contest.Timed(m.postgres.Run(m.t))},
		contest.Contestant{Name: "floor", Way: contest.Timed(m.postgres.Floor(m.t))},
		contest.Contestant{Name: "naive", Way: contest.Timed(m.postgres.Naive(m.t))},
		contest.Contestant{Name: "shedlock", Way: contest.Timed(m.postgres.ShedLock(m.t))},
		contest.Contestant{Name: "advisory", Way: contest.Timed(m.postgres.Advisory())})
	return []figure{
		{"run/floor", times.Ratio("run", "floor")},
		{"run/naive", times.Ratio("run", "naive")},
		{"run_us", times.In(time.Microsecond, "run")},
		{"peer:shedlock/ours", times.Ratio("shedlock", "run")},
		{"peer:advisory/ours", times.Ratio("advisory", "run")},
	}, err
}

func (m *postgresMeasures) skips() ([]figure, error) {
	times, err := m.plan.Run(m.t.Context(),
		contest.Contestant{Name: "skip", Way: contest.Timed(m.postgres.Skip(m.t))},
		contest.Contestant{Name: "floor", Way: contest.Timed(m.postgres.SkipFloor(m.t))})
	return []figure{
		{"skip/floor", times.Ratio("skip", "floor")},
		{"skip_us", times.In(time.Microsecond, "skip")},
	}, err
}

// handoffs takes fewer operations, as the waits have to settle in between.
func (m *postgresMeasures) handoffs() ([]figure, error) {
	plan := contest.Plan{Rounds: m.plan.Rounds, Ops: max(1, m.plan.Ops/3)}
	times, err := plan.Run(m.t.Context(),
		contest.Contestant{Name: "handoff", Way: m.postgres.Handoff(m.t)},
		contest.Contestant{Name: "raw", Way: m.postgres.RawHandoff(m.t)})
	return []figure{
		{"handoff/raw", times.Ratio("handoff", "raw")},
		{"handoff_p50_ms", times.In(time.Millisecond, "handoff")},
	}, err
}

// renewals has a server of its own, on which nobody else has connections.
func (m *postgresMeasures) renewals() ([]figure, error) {
	held, connections, err := rig.NewPostgres(m.t).HoldAndCount(m.t, manyRows, m.renew)
	return []figure{
		{"renew2k_lost", contest.Single(float64(held.Lost))},
		{"renew2k_connections", highest(connections)},
		{"renew2k_renewals_per_s", contest.Single(float64(held.Renewals) / m.renew.Seconds())},
	}, err
}
