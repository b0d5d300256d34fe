package pgleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

var pgURL = "postgres://shop@localhost:5432/shop"

// Two processes share a database, and one of them writes the nightly report.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	b := pgleader.New(pool, nil)
	defer b.Close()
	if err := b.Migrate(ctx); err != nil { // or the statements of Schema, in migrations of your own
		fmt.Println(err)
		return
	}
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2")) // in a service, that of another process
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		other, err := web2.RunIfLeader(ctx, "nightly-report", func(context.Context) error {
			fmt.Println("never printed: web-1 leads")
			return nil
		})
		fmt.Println("web-2:", other) // web-2: Skipped (Contended, held by web-1)
		return err
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

// A transaction is committed while its lease holds, or not at all.
func ExampleBackend_Guard() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	b := pgleader.New(pool, &pgleader.Options{CreateTable: true}) // instead of Migrate
	defer b.Close()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		lease, ok := leader.LeaseFrom(ctx)
		if !ok {
			return leader.ErrLeaseLost
		}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE report SET total = 42"); err != nil {
				return err
			}
			return b.Guard(ctx, tx, lease) // last, right before the commit
		})
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

func TestExamples_PrintWhatTheySay(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	d.execute(t, "CREATE TABLE report AS SELECT 0 AS total")
	pgURL = d.config(t, d.server.Addr()).ConnString()
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example, ExampleBackend_Guard)
	if total := d.ask(t, "SELECT total FROM report"); total != 42 {
		t.Errorf("the report says %d", total)
	}
}
