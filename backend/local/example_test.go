package local_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// Two electors share the store of one process, as in a test of a service.
func Example() {
	b := local.New()
	ctx := context.Background()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2"))
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
