// Rate-limiter is one process of a service that probes targets, all processes together at most so often in a second: a
// quota that somebody else counts. The leader hands out the probes, so one limiter is enough.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/time/rate"
	_ "modernc.org/sqlite" // the driver of the database

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

// lease is how long nobody probes when the leader dies.
const lease = 2 * time.Second

var (
	file  = flag.String("file", "probes.db", "SQLite file that the processes share")
	node  = flag.String("node", "node", "name of this process")
	quota = flag.Float64("quota", 20, "probes per second")
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
	db, err := sql.Open("sqlite", "file:"+*file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(200)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS probes (
		number INTEGER PRIMARY KEY, target TEXT NOT NULL, node TEXT NOT NULL, at INTEGER NOT NULL)`)
	if err != nil {
		return err
	}
	store, err := sqliteleader.Open(*file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	elector, err := leader.New(store, leader.WithNodeID(*node), leader.WithLeaseTime(lease))
	if err != nil {
		return err
	}
	p := prober{db, store}
	err = elector.Campaign(ctx, "probes", p.lead)
	if errors.Is(err, context.Canceled) {
		return nil // asked to stop
	}
	return err
}

type prober struct {
	db    *sql.DB
	store *sqliteleader.Backend
}

// lead hands out probes as fast as the quota allows. Its limiter begins without savings, since the leader before it may
// have used the quota a moment ago.
func (p prober) lead(ctx context.Context) error {
	held, ok := leader.LeaseFrom(ctx)
	if !ok {
		return nil // lost already
	}
	fmt.Printf("%s leads, fence %d\n", *node, held.Info().Fence)
	limiter := rate.NewLimiter(rate.Limit(*quota), 1)
	limiter.Allow() // the only one that is saved
	for {
		if err := limiter.Wait(ctx); err != nil {
			return context.Cause(ctx)
		}
		if err := p.probe(ctx, held, time.Now()); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// targets are probed in turn, whoever leads.
var targets = []string{"alpha", "beta", "gamma"}

// probe probes the next target and writes down that it did. Guard keeps a process that was frozen from going on with it.
func (p prober) probe(ctx context.Context, held *leader.Lease, at time.Time) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	var number int
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(number), 0) + 1 FROM probes`).Scan(&number); err != nil {
		return err
	}
	target := targets[number%len(targets)]
	_, err = tx.ExecContext(ctx, `INSERT INTO probes (number, target, node, at) VALUES (?, ?, ?, ?)`,
		number, target, *node, at.UnixMicro())
	if err != nil {
		return err
	}
	if err := p.store.Guard(ctx, tx, held); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Printf("%s probes %s, number %d\n", *node, target, number)
	return nil
}
