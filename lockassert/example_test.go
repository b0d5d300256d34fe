package lockassert_test

import (
	"context"
	"fmt"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/leadertest"
	"github.com/goleader/leader/lockassert"
)

// Code that must never run without a lease says so in its first line.
func ExampleMust() {
	compact := func(ctx context.Context) {
		lockassert.Must(ctx, "compaction")
		fmt.Println("compacting")
	}
	defer func() { fmt.Println("panic:", recover()) }()
	_, _ = leadertest.Always().RunIfLeader(context.Background(), "compaction", func(ctx context.Context) error {
		compact(ctx)
		return nil
	})
	compact(context.Background())
	// Output:
	// compacting
	// panic: lockassert: "compaction": lease not held
}

// A long step asks for the time that it takes, from deep in the code.
func ExampleExtend() {
	elector, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = elector.RunIfLeader(context.Background(), "compaction", func(ctx context.Context) error {
		outcome, err := lockassert.Extend(ctx, 5*time.Minute)
		fmt.Println(outcome)
		return err
	})
	fmt.Println(err)
	outcome, err := lockassert.Extend(context.Background(), 5*time.Minute)
	fmt.Println(outcome, err)
	// Output:
	// Extended
	// <nil>
	// NotHeld lockassert: lease not held
}
