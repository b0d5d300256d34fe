package sqltest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqlleader"
)

// The electors of a service use a table of its own database. With the drivers of other databases it is the same, with
// another dialect.
func Example() {
	dir, err := os.MkdirTemp("", "leader-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.ToSlash(filepath.Join(dir, "shop.db"))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	b := sqlleader.New(db, sqlleader.SQLite(), nil)
	defer b.Close()
	ctx := context.Background()
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
		fmt.Println("web-2:", other)
		return err
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err))
	// Output:
	// web-2: Skipped (Contended, held by web-1)
	// web-1: Elected <nil>
}
