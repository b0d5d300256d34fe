package main

import (
	"runtime"
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/bench/internal/rig"
	"github.com/goleader/leader/internal/testserver"
)

const (
	heldLeases  = 10_000
	idleWaiters = 1_000
	contenders  = 8
	// contention is how long a round of it takes.
	contention = 300 * time.Millisecond
	// serviceHeap is what a service keeps on its heap, in bytes. A program that keeps nothing collects its garbage with
	// every 4 MB, here at each thousandth run, after which all of it is slower for a while; hooks leave garbage.
	serviceHeap = 64 << 20
)

func redisMeasurements(t testserver.TB, s *settings) []measurement {
	m := &redisMeasures{t: t, settings: s, redis: rig.NewRedis(t)}
	return []measurement{
		{figures: []string{
			"run/floor", "run/setnx", "run_us", "peer:redsync/ours", "peer:redislock/ours", "peer:rueidislock/ours",
		}, take: m.runs},
		{figures: []string{"skip/floor", "skip_us"}, take: m.skips},
		{figures: []string{"handoff/raw", "handoff_p50_ms", "peer:rueidislock_handoff/ours"}, take: m.handoffs},
		{figures: []string{"peer:redsync_handoff/ours"}, take: m.redsyncHandoff},
		{figures: []string{"contended8_runs_per_s"}, take: m.contendTogether},
		{figures: []string{"contended8_apart_runs_per_s"}, take: m.contendApart},
		{figures: []string{"group/single", "group10/single", "strategic/run", "runkey/run"}, take: m.abilities},
		{figures: []string{"observed/run"}, take: m.observed},
		{figures: []string{"strategic_requests"}, take: m.strategicRequests},
		{figures: []string{"strategic_skip_requests"}, take: m.strategicSkipRequests},
		{figures: []string{"list1000_ms"}, take: m.listing},
		{figures: []string{"waiters1000_cpu_percent"}, long: true, take: m.idle},
		{figures: []string{
			"renew10k_lost", "renew10k_bytes_per_lease", "renew10k_goroutines", "renew10k_renewals_per_s",
		}, long: true, take: m.renewals},
	}
}

// redisMeasures are the measurements on one Redis.
type redisMeasures struct {
	*settings

	t     testserver.TB
	redis *rig.Redis
}

func (m *redisMeasures) observed() ([]figure, error) {
	heap := make([]byte, serviceHeap)
	defer runtime.KeepAlive(heap)
	times, err := m.plan.Run(m.t.Context(),
		contest.Contestant{Name: "observed", Way: contest.Timed(m.redis.ObservedRun(m.t))},
		contest.Contestant{Name: "run", Way: contest.Timed(m.redis.Run(m.t))})
	return []figure{{"observed/run", times.Ratio("observed", "run")}}, err
}

func (m *redisMeasures) runs() ([]figure, error) {
	times, err := m.plan.Run(m.t.Context(),
		contest.Contestant{Name: "run", Way: contest.Timed(m.redis.Run(m.t))},
		contest.Contestant{Name: "floor", Way: contest.Timed(m.redis.Floor(m.t))},
		contest.Contestant{Name: "setnx", Way: contest.Timed(m.redis.Setnx())},
		contest.Contestant{Name: "redsync", Way: contest.Timed(m.redis.Redsync())},
		contest.Contestant{Name: "redislock", Way: contest.Timed(m.redis.Redislock())},
		contest.Contestant{Name: "rueidislock", Way: contest.Timed(m.redis.Rueidislock(m.t))})
	return []figure{
		{"run/floor", times.Ratio("run", "floor")},
		{"run/setnx", times.Ratio("run", "setnx")},
		{"run_us", times.In(time.Microsecond, "run")},
		{"peer:redsync/ours", times.Ratio("redsync", "run")},
		{"peer:redislock/ours", times.Ratio("redislock", "run")},
		{"peer:rueidislock/ours", times.Ratio("rueidislock", "run")},
	}, err
}

func (m *redisMeasures) skips() ([]figure, error) {
	times, err := m.plan.Run(m.t.Context(),
		contest.Contestant{Name: "skip", Way: contest.Timed(m.redis.Skip(m.t))},
		contest.Contestant{Name: "floor", Way: contest.Timed(m.redis.SkipFloor(m.t))})
	return []figure{
		{"skip/floor", times.Ratio("skip", "floor")},
		{"skip_us", times.In(time.Microsecond, "skip")},
	}, err
}

// handoffs takes fewer operations, as the waits have to settle in between.
func (m *redisMeasures) handoffs() ([]figure, error) {
	plan := contest.Plan{Rounds: m.plan.Rounds, Ops: max(1, m.plan.Ops/3)}
	times, err := plan.Run(m.t.Context(),
		contest.Contestant{Name: "handoff", Way: m.redis.Handoff(m.t)},
		contest.Contestant{Name: "raw", Way: m.redis.RawHandoff(m.t)},
		contest.Contestant{Name: "rueidislock", Way: m.redis.RueidislockHandoff(m.t)})
	return []figure{
		{"handoff/raw", times.Ratio("handoff", "raw")},
		{"handoff_p50_ms", times.In(time.Millisecond, "handoff")},
		{"peer:rueidislock_handoff/ours", times.Ratio("rueidislock", "handoff")},
	}, err
}

// redsyncHandoff is for itself because each takes about 60 ms.
func (m *redisMeasures) redsyncHandoff() ([]figure, error) {
	plan := contest.Plan{Rounds: m.plan.Rounds, Ops: max(1, m.plan.Ops/75)}
	times, err := plan.Run(m.t.Context(),
		contest.Contestant{Name: "handoff", Way: m.redis.Handoff(m.t)},
		contest.Contestant{Name: "redsync", Way: m.redis.RedsyncHandoff(m.t)})
	return []figure{{"peer:redsync_handoff/ours", times.Ratio("redsync", "handoff")}}, err
}

func (m *redisMeasures) contendTogether() ([]figure, error) {
	return m.contend("contended8_runs_per_s", m.redis.ContendTogether(m.t, contenders))
}

func (m *redisMeasures) contendApart() ([]figure, error) {
	return m.contend("contended8_apart_runs_per_s", m.redis.ContendApart(m.t, contenders))
}

func (m *redisMeasures) contend(name string, c rig.Contention) ([]figure, error) {
	spread, err := rounds(m.plan.Rounds, func() (float64, error) { return c.RunsPerSecond(m.t.Context(), contention) })
	return []figure{{name, spread}}, err
}

func (m *redisMeasures) idle() ([]figure, error) {
	used, err := m.redis.Idle(m.t, idleWaiters, m.settings.idle)
	return []figure{{"waiters1000_cpu_percent", contest.SpreadOf(used)}}, err
}

func (m *redisMeasures) renewals() ([]figure, error) {
	held, err := m.redis.Hold(m.t, heldLeases, m.renew)
	return []figure{
		{"renew10k_lost", contest.Single(float64(held.Lost))},
		{"renew10k_bytes_per_lease", contest.Single(held.Bytes)},
		{"renew10k_goroutines", highest(held.Goroutines)},
		{"renew10k_renewals_per_s", contest.Single(float64(held.Renewals) / m.renew.Seconds())},
	}, err
}
