// Package tickstest runs schedulers as replicas, each a process, over a SQLite file that is their store and their list of
// runs, and checks which fire times they have run.
//
// A test calls [Main] in TestMain, which makes its own binary the replica, and then [EachOnce] and [Killed].
package tickstest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/schedule"
)

const (
	// Period is the period of the job that a replica runs, at the multiples of it.
	Period = 2 * time.Second
	// Lease is the lease time that a replica asks for: less than the period, so that a replica that was killed costs
	// one fire time.
	Lease = time.Second
	// Name is the name of the job.
	Name = "job"
)

// Keys of the environment of a replica.
const (
	keyDir  = "TICKSTEST_DIR"
	keyNode = "TICKSTEST_NODE"
	keyWork = "TICKSTEST_WORK"
)

// Replica is what one process of the test needs.
type Replica struct {
	Store string // path of the SQLite file for the leases

	node string
	work time.Duration
	list *sql.DB
}

// Main runs the tests, or, in a process that was started by [EachOnce] or [Killed], a replica: run schedules
// [Replica.Job], calls [Replica.Ready], and returns when ctx ends. The database/sql driver "sqlite" must be linked in.
func Main(m *testing.M, run func(ctx context.Context, r *Replica) error) {
	dir := os.Getenv(keyDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := runReplica(dir, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runReplica(dir string, run func(ctx context.Context, r *Replica) error) error {
	work, err := time.ParseDuration(os.Getenv(keyWork))
	if err != nil {
		return err
	}
	list, err := openList(dir)
	if err != nil {
		return err
	}
	defer list.Close()
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // this is a program's start
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		stop()
	}()
	r := &Replica{Store: filepath.Join(dir, "leases.db"), node: os.Getenv(keyNode), work: work, list: list}
	return run(ctx, r)
}

// Ready says that the scheduler has been started.
func (r *Replica) Ready(ctx context.Context) error { return r.note(ctx, time.Time{}, "ready") }

// Job is the job of all replicas. It notes when it begins and when it ends, with the fire time in its context.
func (r *Replica) Job(ctx context.Context) error {
	fire, ok := schedule.FireTime(ctx)
	if _, trusted := leader.LeaseFrom(ctx); !ok || !trusted {
		return errors.New("no fire time, or no lease, in the context of the job")
	}
	if err := r.note(ctx, fire, "begins"); err != nil {
		return err
	}
	select {
	case <-time.After(r.work):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.note(ctx, fire, "ends")
}

func (r *Replica) note(ctx context.Context, fire time.Time, what string) error {
	_, err := r.list.ExecContext(ctx, "INSERT INTO runs (fire, what, node, noted) VALUES (?, ?, ?, ?)",
		fire.UnixMilli(), what, r.node, time.Now().UnixMilli())
	return err
}

// openList opens the list of runs in a folder.
func openList(dir string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+filepath.Join(dir, "runs.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
}
