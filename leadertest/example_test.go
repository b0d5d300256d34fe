package leadertest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/leadertest"
)

// cleanUp is code under test: a job that one node does.
func cleanUp(ctx context.Context, elector leader.Elector) (string, error) {
	result, err := elector.RunIfLeader(ctx, "clean-up", func(context.Context) error { return nil })
	if err != nil {
		return "", err
	}
	return result.String(), nil
}

func ExampleAlways() {
	fmt.Println(cleanUp(context.Background(), leadertest.Always()))
	// Output: Elected (fence 1) <nil>
}

func ExampleNever() {
	elector := leadertest.Never("node-b")
	fmt.Println(cleanUp(context.Background(), elector))

	state, err := elector.State(context.Background(), "clean-up")
	fmt.Println(state.Node, err)
	// Output:
	// Skipped (Contended, held by node-b) <nil>
	// node-b <nil>
}

func ExampleScript() {
	elector := leadertest.Script(
		leadertest.HeldBy("node-b"),
		leadertest.Fails(errors.New("connection refused")),
		leadertest.Elected(), // and so on
	)
	for range 4 {
		fmt.Println(cleanUp(context.Background(), elector))
	}
	// Output:
	// Skipped (Contended, held by node-b) <nil>
	//  leader: acquire "clean-up" (leadertest): connection refused
	// Elected (fence 2) <nil>
	// Elected (fence 3) <nil>
}

func ExampleLosing() {
	elector := leadertest.Losing(10 * time.Millisecond)
	result, err := elector.RunIfLeader(context.Background(), "clean-up", func(ctx context.Context) error {
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return nil
	})
	fmt.Println(result.OK(), err)
	// Output:
	// lease lost: no longer ours, says the store
	// false <nil>
}

// charge is code under test that only works inside an action.
func charge(ctx context.Context) error {
	lease, ok := leader.LeaseFrom(ctx)
	if !ok {
		return leader.ErrNotElected
	}
	fmt.Println("charged under", lease.Info().Name)
	return nil
}

func ExamplePretend() {
	ctx := context.Background()
	fmt.Println(charge(ctx))
	fmt.Println(charge(leadertest.Pretend(ctx, "billing")))
	// Output:
	// not elected
	// charged under billing
	// <nil>
}
