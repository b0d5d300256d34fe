package raftleader_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/raftleader"
)

// A cluster of one node, with its log in memory. A service has three nodes or five: each process opens one, with the
// same Peers, and gives it to its elector.
func Example() {
	ctx := context.Background()
	b, err := raftleader.Open(ctx, raftleader.Config{
		Addr: "127.0.0.1:0", // any free port; with Peers it has to be a fixed one
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2")) // in a service, on the node of another process
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
