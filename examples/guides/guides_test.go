// Package guides has the code of the guides in docs, which is compiled and run here, and checks what they refer to.
package guides

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/leadertest"
	"github.com/goleader/leader/lockassert"
	"github.com/goleader/leader/metrics/promleader"
)

func poll(ctx context.Context, every time.Duration) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
	}
}

func electorOf(t *testing.T, d *local.Backend) *leader.Single {
	t.Helper()
	elector, err := leader.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return elector
}

// campaignUntilASignal is what docs/shutdown.md begins with.
func campaignUntilASignal(elector leader.Elector, every time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := elector.Campaign(ctx, "poller", func(ctx context.Context) error {
		return poll(ctx, every)
	})
	return err
}

func TestShutdown_HandsOverAtOnce(t *testing.T) {
	store := local.New()
	first, second := electorOf(t, store), electorOf(t, store)
	ended := make(chan error, 1)
	go func() { ended <- campaignUntilASignal(first, time.Millisecond) }()
	waitForLeader(t, first, "poller")

	asked := time.Now()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	result, err := second.RunIfLeader(t.Context(), "poller", func(context.Context) error { return nil },
		leader.WithWaitTime(20*time.Second))
	if err != nil || !result.OK() {
		t.Fatalf("the other node was not elected: %v, %v", result, err)
	}
	if took := time.Since(asked); took > 20*time.Second { // the lease time is a minute
		t.Errorf("the hand-over took %v", took)
	}
	if err := <-ended; err == nil || errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("Campaign returned %v, want the end of its context", err)
	}
}

func waitForLeader(t *testing.T, e leader.Elector, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for state, err := range e.Watch(ctx, name) {
		if err != nil {
			t.Fatal(err)
		}
		if state.Node != "" {
			return
		}
	}
	t.Fatal("nobody leads")
}

// campaigns is what docs/shutdown.md says of several things at once.
func campaigns(
	ctx context.Context, client io.Closer, elector leader.Elector, work func(name string) leader.Action,
) error {
	var services sync.WaitGroup
	for _, name := range []string{"poller", "cleaner"} {
		services.Go(func() {
			if err := elector.Campaign(ctx, name, work(name)); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
		})
	}
	services.Wait()
	return client.Close()
}

func TestShutdown_ClosesTheClientAfterTheReleases(t *testing.T) {
	db, err := sqliteleader.Open(filepath.Join(t.TempDir(), "leases.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	elector, err := leader.New(db)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var leading sync.WaitGroup
	leading.Add(2)
	go func() {
		leading.Wait()
		cancel()
	}()
	err = campaigns(ctx, db, elector, func(string) leader.Action {
		return func(ctx context.Context) error {
			leading.Done()
			<-ctx.Done()
			return ctx.Err()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// observed is what docs/operations.md begins with, which examples/prometheus-dashboard runs.
var _ = observed

func observed(ctx context.Context, driver backend.Driver) error {
	collector := promleader.New(nil)
	prometheus.MustRegister(collector)
	elector, err := leader.New(driver, leader.WithHooks(collector.Hooks()))
	if err != nil {
		return err
	}
	go func() { // for names that somebody is to lead all the time
		if err := collector.Watch(ctx, elector, "billing"); err != nil {
			log.Print(err)
		}
	}()
	return nil
}

// overPostgres and overRedis are what docs/getting-started.md says of other stores. They are compiled here; that they work
// is tested by the backends.
var _, _ = overPostgres, overRedis

func overPostgres(ctx context.Context, use func(leader.Elector) error) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	store := pgleader.New(pool, nil)
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	elector, err := leader.New(store)
	if err != nil {
		return err
	}
	return use(elector)
}

func overRedis(use func(leader.Elector) error) error {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR"), ContextTimeoutEnabled: true})
	defer client.Close()
	store := redisleader.New(client, nil)
	defer store.Close()
	elector, err := leader.New(store)
	if err != nil {
		return err
	}
	return use(elector)
}

type report struct {
	elector leader.Runner
	runs    int
}

func newReport(r leader.Runner) *report { return &report{elector: r} }

func (r *report) nightly(ctx context.Context) error {
	_, err := r.elector.RunIfLeader(ctx, "nightly-report", func(context.Context) error {
		r.runs++
		return nil
	})
	return err
}

func TestTesting_TheLeaderRuns(t *testing.T) {
	ctx := t.Context()
	report := newReport(leadertest.Always())
	if err := report.nightly(ctx); err != nil || report.runs != 1 {
		t.Errorf("%d runs, %v", report.runs, err)
	}
}

func TestTesting_AStandbyDoesNothing(t *testing.T) {
	report := newReport(leadertest.Never("web-2"))
	if err := report.nightly(t.Context()); err != nil || report.runs != 0 {
		t.Errorf("%d runs, %v", report.runs, err)
	}
}

func TestTesting_ALossStopsTheWork(t *testing.T) {
	ctx := t.Context()
	cause := make(chan error, 1)
	result, err := leadertest.Losing(50*time.Millisecond).RunIfLeader(ctx, "poller", func(ctx context.Context) error {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	if err != nil || !errors.Is(<-cause, leader.ErrLeaseLost) || !errors.Is(result.Lost, leader.ErrLeaseLost) {
		t.Errorf("the loss was not told: %v, %v", result, err)
	}
}

func TestTesting_Pretends(t *testing.T) {
	ctx := t.Context()
	if err := lockassert.Held(leadertest.Pretend(ctx, "nightly-report"), "nightly-report"); err != nil {
		t.Error(err)
	}
}
