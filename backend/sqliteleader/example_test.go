package sqliteleader_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

// Two processes of one machine open the same file, and one of them writes the nightly report.
func Example() {
	dir, err := os.MkdirTemp("", "leader-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "leader.db") // in a service, such as /var/lib/shop/leader.db
	b1, err := sqliteleader.Open(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b1.Close()
	b2, err := sqliteleader.Open(path, nil) // in a service, by another process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b2.Close()
	ctx := context.Background()
	web1, err := leader.New(b1, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b2, leader.WithNodeID("web-2"))
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
