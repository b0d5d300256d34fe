package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// elector is that of a node. In a service each process has one, on a store that all of them share.
func elector(store backend.Driver, node string, opts ...leader.Option) *leader.Single {
	e, err := leader.New(store, append(opts, leader.WithNodeID(node))...)
	if err != nil {
		log.Fatal(err)
	}
	return e
}

// Two nodes want to write a report, and one of them does.
func Example() {
	store := local.New() // redisleader.New(client, nil), say, in a service
	a, b := elector(store, "node-a"), elector(store, "node-b")
	ctx := context.Background()

	result, err := a.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		other, err := b.RunIfLeader(ctx, "nightly-report", func(context.Context) error {
			fmt.Println("never printed: node-a leads")
			return nil
		})
		fmt.Println("node-b:", other, err)
		return err
	})
	fmt.Println("node-a:", result.Outcome, err)
	// Output:
	// node-b: Skipped (Contended, held by node-a) <nil>
	// node-a: Elected <nil>
}

// What became of a run is in its result. An error says that the action did not run.
func ExampleRunResult() {
	e := elector(local.New(), "node-a")
	run := func(action leader.Action) {
		result, err := e.RunIfLeader(context.Background(), "import", action)
		switch {
		case err != nil:
			fmt.Println("the store could not be asked:", err)
		case result.OK():
			fmt.Println("done")
		case result.Outcome == leader.Skipped:
			fmt.Println("another node does it:", result.Holder.Node)
		case result.Lost != nil:
			fmt.Println("the lease ended first, somebody else may have begun:", result.Lost)
		default:
			fmt.Println("failed:", result.Err)
		}
	}
	run(func(context.Context) error { return nil })
	run(func(context.Context) error { return errors.New("no such file") })
	// Output:
	// done
	// failed: no such file
}

// RunIfLeader as a function is for actions that return a value.
func ExampleRunIfLeader() {
	e := elector(local.New(), "node-a")
	result, err := leader.RunIfLeader(context.Background(), e, "count", func(context.Context) (int, error) {
		return 42, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	n, err := result.Value()
	fmt.Println(n, err)
	// Output: 42 <nil>
}

// A lease that is acquired is for work that does not fit into a function.
func ExampleSingle_Acquire() {
	e := elector(local.New(), "node-a")
	lease, err := e.Acquire(context.Background(), "migration", leader.WithLeaseTime(10*time.Second))
	if errors.Is(err, leader.ErrNotElected) {
		fmt.Println("another node migrates")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("trusted:", lease.Err() == nil, lease.Context().Err() == nil)

	if err := lease.Release(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("trusted:", lease.Err() == nil)
	// Output:
	// trusted: true true
	// trusted: false
}

// A step that must not be cut short makes sure beforehand that there is time for it.
func ExampleLease_Extend() {
	e := elector(local.New(), "node-a", leader.WithLeaseTime(10*time.Second))
	result, err := e.RunIfLeader(context.Background(), "switch-over", func(ctx context.Context) error {
		lease, _ := leader.LeaseFrom(ctx)
		if err := lease.Extend(ctx, time.Minute); err != nil {
			return err
		}
		fmt.Println("a minute is left:", time.Until(lease.TrustedUntil()) > 50*time.Second)
		return nil
	})
	fmt.Println(result.OK(), err)
	// Output:
	// a minute is left: true
	// true <nil>
}

// Code far below the action finds the lease in its context, and hands the fence to a store that refuses an older one.
func ExampleLeaseFrom() {
	var newest uint64
	write := func(ctx context.Context) error {
		lease, ok := leader.LeaseFrom(ctx)
		if !ok {
			return errors.New("no lease, or one that is over")
		}
		if lease.Info().Fence < newest {
			return errors.New("somebody else has written since")
		}
		newest = lease.Info().Fence
		return nil
	}
	fmt.Println(write(context.Background()))
	result, err := elector(local.New(), "node-a").RunIfLeader(context.Background(), "writer", write)
	fmt.Println(result.OK(), err)
	// Output:
	// no lease, or one that is over
	// true <nil>
}

// A controller leads for as long as it can, and waits for its turn otherwise.
func ExampleSingle_Campaign() {
	e := elector(local.New(), "node-a")
	ctx, shutdown := context.WithCancel(context.Background())
	err := e.Campaign(ctx, "controller", func(ctx context.Context) error {
		fmt.Println("leading")
		shutdown() // a signal, in a service
		<-ctx.Done()
		fmt.Println("stopped")
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// leading
	// stopped
	// true
}

// A state tells people who leads. Whoever acts needs a lease.
func ExampleSingle_State() {
	store := local.New()
	a, b := elector(store, "node-a", leader.WithMetadata(map[string]string{"zone": "eu-1"})), elector(store, "node-b")
	_, err := a.RunIfLeader(context.Background(), "controller", func(ctx context.Context) error {
		state, err := b.State(ctx, "controller")
		fmt.Println(state.Node, state.Metadata["zone"], state.Remaining > 0)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: node-a eu-1 true
}

// A watch tells of each change of the leader.
func ExampleSingle_Watch() {
	store := local.New()
	lease, err := elector(store, "node-a").Acquire(context.Background(), "controller")
	if err != nil {
		log.Fatal(err)
	}
	for state, err := range elector(store, "node-b").Watch(context.Background(), "controller") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("leader: %q\n", state.Node)
		if state.Node == "" {
			break
		}
		if err := lease.Release(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// leader: "node-a"
	// leader: ""
}

// Up to two nodes crawl at a time. Which slot a node gets is up to the store; this one gives the lowest.
func ExampleNewGroup() {
	store := local.New()
	var leases []*leader.Lease
	for _, node := range []string{"node-a", "node-b", "node-c"} {
		group, err := leader.NewGroup(store, 2, leader.WithNodeID(node))
		if err != nil {
			log.Fatal(err)
		}
		lease, err := group.Acquire(context.Background(), "crawler")
		if err != nil {
			fmt.Println(node, errors.Is(err, leader.ErrNotElected))
			continue
		}
		fmt.Println(node, "has slot", lease.Info().Slot)
		leases = append(leases, lease)
	}
	for _, lease := range leases {
		if err := lease.Release(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// node-a has slot 0
	// node-b has slot 1
	// node-c true
}

// The node with the most free memory builds the index.
func ExampleNewStrategic() {
	store := local.New()
	ctx, end := context.WithCancel(context.Background())
	defer end() // those who are enrolled leave with it
	mostFree := leader.ScorerFunc(func(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 {
		gigabytes, _ := strconv.ParseFloat(c.Metadata["free"], 64) // 0 if it is not known
		return gigabytes
	})
	nodes := map[string]*leader.Strategic{}
	for node, memory := range map[string]string{"node-a": "2", "node-b": "8"} {
		e, err := leader.NewStrategic(store, leader.Scored(mostFree), leader.WithNodeID(node))
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = e.Enroll(ctx, "index", leader.Candidate{Metadata: map[string]string{"free": memory}})
		if err != nil {
			fmt.Println(err)
			return
		}
		nodes[node] = e
	}
	for _, node := range []string{"node-a", "node-b"} {
		result, err := nodes[node].RunIfLeader(ctx, "index", func(context.Context) error { return nil })
		fmt.Println(node, result.Outcome, err)
	}
	// Output:
	// node-a Skipped <nil>
	// node-b Elected <nil>
}
