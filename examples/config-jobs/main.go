// Config-jobs is one replica of a service whose jobs are declared in a YAML file. Each job runs on one of all replicas,
// once for each of its fire times.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/robfig/cron/v3"
	"go.yaml.in/yaml/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/jobs"
	"github.com/goleader/leader/schedule"
)

var (
	file = flag.String("config", "config-jobs/jobs.yaml", "the file that declares the jobs")
	dir  = flag.String("dir", filepath.Join(os.TempDir(), "config-jobs"), "folder of the files that the replicas share")
	node = flag.String("node", "", "name of this replica; by default the library makes one")
	work = flag.Duration("work", 20*time.Millisecond, "what a job takes")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := readConfig(*file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	store, err := sqliteleader.Open(filepath.Join(*dir, "leases.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	elector, err := leader.New(store, electorOptions()...)
	if err != nil {
		return err
	}
	list, err := openList(ctx, filepath.Join(*dir, "runs.db"))
	if err != nil {
		return err
	}
	defer list.Close()
	table, err := jobs.New(elector, config, map[string]leader.Action{
		"report": list.job, "cleanup": list.job, "sync": list.job,
	}, jobs.WithCron(cron.ParseStandard), jobs.WithSchedule(schedule.WithReport(say)))
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "running", "jobs", table.Names())
	return table.Run(ctx)
}

// readConfig reads the file, and then the environment, which wins: CONFIG_LEASE=5s sets the lease time of all jobs that
// have none of their own.
func readConfig(path string) (config jobs.Config, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return config, err
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return config, fmt.Errorf("%s: %w", path, err)
	}
	return config, env.ParseWithOptions(&config, env.Options{Prefix: "CONFIG_"})
}

func electorOptions() []leader.Option {
	if *node == "" {
		return nil
	}
	return []leader.Option{leader.WithNodeID(*node)}
}

// say prints what became of a tick on this replica.
func say(ctx context.Context, t schedule.Tick) {
	log := slog.With("job", t.Name)
	if !t.Fire.IsZero() {
		log = log.With("tick", t.Fire.UTC().Format(time.TimeOnly))
	}
	switch {
	case t.Missed:
		log.InfoContext(ctx, "missed")
	case t.Err != nil:
		log.InfoContext(ctx, "not run", "err", t.Err)
	default:
		log.InfoContext(ctx, "tick", "result", t.Result)
	}
}

// runList is a list of runs, which stands for what jobs do.
type runList struct{ *sql.DB }

func openList(ctx context.Context, path string) (runList, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return runList{}, err
	}
	_, err = db.ExecContext(ctx,
		"CREATE TABLE IF NOT EXISTS runs (job TEXT, fire INTEGER, what TEXT, node TEXT, noted INTEGER)")
	return runList{db}, err
}

// job notes when it begins, works a little, and notes when it ends.
func (l runList) job(ctx context.Context) error {
	if err := l.note(ctx, "begins"); err != nil {
		return err
	}
	select {
	case <-time.After(*work):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.note(ctx, "ends")
}

func (l runList) note(ctx context.Context, what string) error {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return leader.ErrLeaseLost
	}
	var fire int64 // none with a delay
	if at, ok := schedule.FireTime(ctx); ok {
		fire = at.UnixMilli()
	}
	info := held.Info()
	_, err := l.ExecContext(ctx, "INSERT INTO runs (job, fire, what, node, noted) VALUES (?, ?, ?, ?, ?)",
		info.Name, fire, what, info.Node, time.Now().UnixMilli())
	return err
}
