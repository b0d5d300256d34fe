// Quickstart lets three nodes contend for a job and for a service, over a SQLite file. Start it in two terminals, and
// two processes contend.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

const (
	period = 500 * time.Millisecond // of the job
	work   = 300 * time.Millisecond // what the job takes
	term   = 400 * time.Millisecond // how long a node leads the service
)

var (
	file   = flag.String("file", filepath.Join(os.TempDir(), "leader-quickstart.db"), "SQLite file that the nodes share")
	rounds = flag.Int("rounds", 3, "how often the job comes up")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// Each node has its own elector. Usually it is the only one in its process.
	store, err := sqliteleader.Open(*file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	var nodes []node
	for _, letter := range []string{"a", "b", "c"} {
		id := fmt.Sprintf("%d-%s", os.Getpid(), letter)
		elector, err := leader.New(store, leader.WithNodeID(id), leader.WithLeaseTime(3*time.Second))
		if err != nil {
			return err
		}
		nodes = append(nodes, node{id, elector})
	}
	fmt.Printf("Process %d over %s. Start it in a second terminal too, with -rounds 60.\n", os.Getpid(), *file)

	fmt.Println("\nA job comes up on all nodes. RunIfLeader runs it on one of them:")
	next := time.NewTicker(period)
	defer next.Stop()
	for range *rounds {
		if err := together(nodes, func(n node) error { return n.job(ctx) }); err != nil {
			return err
		}
		<-next.C
	}

	fmt.Println("\nA service runs on one node. Campaign waits for its turn and takes over:")
	return together(nodes, func(n node) error { return n.service(ctx) })
}

// node is one contender.
type node struct {
	id      string
	elector leader.Elector
}

// job runs on this node unless another has it.
func (n node) job(ctx context.Context) error {
	result, err := n.elector.RunIfLeader(ctx, "quickstart-job", func(ctx context.Context) error {
		n.say(fence(ctx), "leads, and runs the job")
		return pause(ctx, work)
	}, leader.WithFailureMode(leader.Skip)) // a store that is busy costs a round, a broken one is an error
	switch {
	case err != nil:
		return err // the job did not run
	case result.Reason == leader.BackendFailed:
		n.say(0, "is skipped, because the store failed")
	case result.Reason == leader.Contended:
		n.say(result.Holder.Fence, "is skipped, because %s leads", result.Holder.Node)
	case !result.OK():
		return errors.Join(result.Err, result.Lost)
	}
	return nil
}

// service leads for a while, once it is its turn.
func (n node) service(ctx context.Context) error {
	return n.elector.Campaign(ctx, "quickstart-service", func(ctx context.Context) error {
		n.say(fence(ctx), "leads the service")
		defer n.say(fence(ctx), "hands over")
		return pause(ctx, term)
	})
}

// fence is the number of the lease, greater than that of every earlier one. Stores that know it can refuse late writes.
func fence(ctx context.Context) uint64 {
	lease, ok := leader.LeaseFrom(ctx)
	if !ok {
		return 0
	}
	return lease.Info().Fence
}

// pause stands for work. It stops when the context ends: the lease is lost, or the process is asked to stop.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// say prints the time, the node, what happened, and the fence of whoever leads.
func (n node) say(fence uint64, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	fmt.Printf("%s  %-9s %-38s fence %d\n", time.Now().Format("15:04:05.000"), n.id, what, fence)
}

// together calls f for all nodes at the same time.
func together(nodes []node, f func(n node) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = f(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}
