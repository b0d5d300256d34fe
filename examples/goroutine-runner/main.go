// Goroutine-runner has ten thousand goroutines run leader-only work under a hundred names, in one process: for each name one
// of them at a time, and all of them in the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

var (
	goroutines = flag.Int("goroutines", 10_000, "how many goroutines want to run")
	names      = flag.Int("names", 100, "under how many names")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// account is what the work under one name changes. It has no lock of its own: the lease is the lock.
type account struct {
	runs   int
	inside atomic.Int32
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	elector, err := leader.New(local.New(), leader.WithWaitTime(time.Minute))
	if err != nil {
		return err
	}
	accounts := make([]account, *names)
	var (
		overlaps, skipped, failed atomic.Int64
		running                   sync.WaitGroup
	)
	began := time.Now()
	for i := range *goroutines {
		running.Go(func() {
			a := &accounts[i%*names]
			result, err := elector.RunIfLeader(ctx, fmt.Sprintf("account-%d", i%*names), func(context.Context) error {
				if a.inside.Add(1) > 1 {
					overlaps.Add(1)
				}
				defer a.inside.Add(-1)
				a.runs++
				return nil
			})
			switch {
			case err != nil:
				failed.Add(1)
			case !result.OK():
				skipped.Add(1)
			}
		})
	}
	running.Wait()
	runs := 0
	for i := range accounts {
		runs += accounts[i].runs
	}
	fmt.Printf("%d runs under %d names in %v; skipped %d, failed %d, overlaps %d\n",
		runs, *names, time.Since(began).Round(time.Millisecond), skipped.Load(), failed.Load(), overlaps.Load())
	return nil
}
