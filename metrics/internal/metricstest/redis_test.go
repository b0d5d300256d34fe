package metricstest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

// bar is what all observers together may add to a run.
const bar = 0.05

func redisDriver(t testing.TB) *redisleader.Backend {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                  testserver.Redis(t, testserver.RedisConfig("appendonly no")).Addr(),
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	driver := redisleader.New(client, nil)
	t.Cleanup(func() { _ = driver.Close() })
	return driver
}

// run is a run that must succeed.
func run(t testing.TB, d *redisleader.Backend, hooks leader.Hooks) func(ctx context.Context) error {
	t.Helper()
	e, err := leader.New(d, leader.WithHooks(hooks), leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) error {
		r, err := e.RunIfLeader(ctx, "job", func(context.Context) error { return nil })
		if err == nil && !r.OK() {
			err = errors.New(r.String())
		}
		return err
	}
}

// BenchmarkRun compares a run on Redis with those that metrics of either kind and traces observe.
func BenchmarkRun(b *testing.B) {
	var c benchtest.Contest
	driver, all := redisDriver(b), observers(b)
	c.Add("plain", run(b, driver, leader.Hooks{}))
	for name, hooks := range all {
		c.Add(name, run(b, driver, hooks))
	}
	medians := c.Run(b)
	for name := range all {
		benchtest.Ratio(b, medians, name, "plain")
	}
}

// BenchmarkHooks is what they add, without a store.
func BenchmarkHooks(b *testing.B) {
	for name, hooks := range observers(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tell(b.Context(), hooks)
			}
		})
	}
}

// tell calls the hooks that a run calls.
func tell(ctx context.Context, hooks leader.Hooks) {
	info := leader.LeaseInfo{Name: "job", Node: "node", Key: "job", Fence: 1, Acquired: time.Now()}
	ctx = hooks.RunStarted(ctx, "job")
	hooks.Acquired(ctx, info)
	hooks.Released(ctx, info)
	info.Held = time.Millisecond
	hooks.RunFinished(ctx, "job", leader.RunResult{
		Outcome: leader.Elected, Lease: info, Waited: time.Millisecond, Attempts: 1,
	}, nil)
}

// withoutRace runs a test in a process without the race detector, which slows the hooks down, and Redis not.
func withoutRace(t *testing.T) {
	t.Helper()
	args := []string{"test", "-race=false", "-count=1", "-v", "-run", "^" + t.Name() + "$", "."}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("%s", out)
	}
	if !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("the test did not run:\n%s", out)
	}
	t.Logf("%s", out)
}

// TestHooks_AddLittleToARedisRun compares what the hooks take with what a run takes. Of each the median of a block counts,
// and the best of several blocks, so that what else the machine does is no matter.
func TestHooks_AddLittleToARedisRun(t *testing.T) {
	if raceEnabled {
		withoutRace(t)
		return
	}
	const blocks, length = 15, 200
	plain := run(t, redisDriver(t), leader.Hooks{})
	for name, hooks := range observers(t) {
		added, whole := time.Hour, time.Hour
		for range blocks {
			added = min(added, median(t, length, func() error { tell(t.Context(), hooks); return nil }))
			whole = min(whole, median(t, length, func() error { return plain(t.Context()) }))
		}
		share := float64(added) / float64(whole)
		t.Logf("%s: the hooks take %v, a run %v: %.1f %%", name, added, whole, 100*share)
		if share > bar {
			t.Errorf("%s: the hooks add %.1f %% to a run, want at most %.0f %%", name, 100*share, 100*bar)
		}
	}
}

func median(t *testing.T, n int, f func() error) time.Duration {
	t.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		if err := f(); err != nil {
			t.Fatal(err)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[n/2]
}
