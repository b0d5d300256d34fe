package mysqlleader_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

var mysqlDSN = "shop:secret@tcp(localhost:3306)/shop?timeout=5s&readTimeout=5s"

// Two processes share a database, and one of them writes the nightly report.
func Example() {
	db, err := sql.Open("mysql", mysqlDSN)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxIdleConns(10)
	b := mysqlleader.New(db, nil)
	defer b.Close()
	if err := b.Migrate(context.Background()); err != nil { // or the statements of Schema, in migrations of your own
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
	result, err := web1.RunIfLeader(context.Background(), "nightly-report", func(ctx context.Context) error {
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
func Example_guard() {
	db, err := sql.Open("mysql", mysqlDSN)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	b := mysqlleader.New(db, &mysqlleader.Options{CreateTable: true}) // instead of Migrate
	defer b.Close()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(context.Background(), "nightly-report", func(ctx context.Context) error {
		lease, ok := leader.LeaseFrom(ctx)
		if !ok {
			return leader.ErrLeaseLost
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // unless it is committed
		if _, err := tx.ExecContext(ctx, "UPDATE report SET total = 42"); err != nil {
			return err
		}
		if err := b.Guard(ctx, tx, lease); err != nil { // last, right before the commit
			return err
		}
		return tx.Commit()
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

func TestExamples_PrintWhatTheySay(t *testing.T) {
	server := testserver.MariaDB(t)
	schema := newSchema(t, server)
	db := connect(t, server, in(schema))
	execute(t, db, "CREATE TABLE report AS SELECT 0 AS total")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	mysqlDSN = fmt.Sprintf("%s:%s@tcp(%s)/%s", u.User.Username(), server.Password(), u.Host, schema)
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example, Example_guard)
	if total := number(t, db, "SELECT total FROM report"); total != 42 {
		t.Errorf("the report says %d", total)
	}
}
