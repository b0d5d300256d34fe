package leader_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

func succeed(context.Context) error { return nil }

// A quick job keeps its name taken for a while, so that a node whose clock is behind does not do it again.
func ExampleWithMinLease() {
	store := local.New()
	for _, node := range []string{"node-a", "node-b"} {
		result, err := elector(store, node).RunIfLeader(context.Background(), "report", succeed,
			leader.WithMinLease(5*time.Second))
		fmt.Println(node, result.Outcome, err)
	}
	// Output:
	// node-a Elected <nil>
	// node-b Skipped <nil>
}

// What has a key runs once, on whatever node, for as long as the key is kept.
func ExampleWithRunKey() {
	store := local.New()
	for _, node := range []string{"node-a", "node-b"} {
		result, err := elector(store, node).RunIfLeader(context.Background(), "migrate", succeed,
			leader.WithRunKey("v42", 24*time.Hour))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(node, result.Outcome, result.Reason == leader.AlreadyRan)
	}
	// Output:
	// node-a Elected false
	// node-b Skipped true
}

// A run waits for its turn, and gives up in time.
func ExampleWithWaitTime() {
	store := local.New()
	lease, err := elector(store, "node-a").Acquire(context.Background(), "deploy")
	if err != nil {
		log.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = lease.Release(context.Background()) })
	result, err := elector(store, "node-b").RunIfLeader(context.Background(), "deploy", succeed,
		leader.WithWaitTime(time.Minute))
	fmt.Println(result.Outcome, result.Waited > 0, err)
	// Output: Elected true <nil>
}

// A lease that ends at a certain age, however long its action would go on.
func ExampleWithMaxHold() {
	result, err := elector(local.New(), "node-a").RunIfLeader(context.Background(), "poll",
		func(ctx context.Context) error {
			<-ctx.Done()
			fmt.Println(context.Cause(ctx))
			return nil
		}, leader.WithMaxHold(20*time.Millisecond))
	fmt.Println(result.Outcome, result.Lost != nil, err)
	// Output:
	// lease lost: held longer than allowed
	// Elected true <nil>
}

// Hooks tell what happens, for logs, metrics and traces.
func ExampleWithHooks() {
	e := elector(local.New(), "node-a", leader.WithHooks(leader.Hooks{
		Acquired: func(_ context.Context, l leader.LeaseInfo) { fmt.Println("acquired", l.Name) },
		Released: func(_ context.Context, l leader.LeaseInfo) { fmt.Println("released", l.Name) },
		RunFinished: func(_ context.Context, name string, r leader.RunResult, err error) {
			fmt.Println("finished", name, r.Outcome, err)
		},
	}))
	if _, err := e.RunIfLeader(context.Background(), "report", succeed); err != nil {
		log.Fatal(err)
	}
	// Output:
	// acquired report
	// released report
	// finished report Elected <nil>
}

// What is wrong with options is said before anything happens, all of it at once.
func ExampleNew_wrong() {
	_, err := leader.New(local.New(), leader.WithLeaseTime(-time.Second), leader.WithNodeID(""))
	fmt.Println(err)
	// Output:
	// leader: new elector on local: invalid name: node id is empty
	// invalid option: WithLeaseTime(-1s): must be positive
}

// A declared job is checked when the program starts.
func ExampleWrap() {
	report, err := leader.Wrap(elector(local.New(), "node-a"), "nightly-report", succeed,
		leader.WithLeaseTime(30*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	result, err := report(context.Background())
	fmt.Println(result.OK(), err)
	// Output: true <nil>
}
