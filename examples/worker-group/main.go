// Worker-group keeps two of four processes at work. When one of the two is killed, another takes its slot. The program
// starts the four itself, so that one terminal shows what happens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

const (
	name  = "workers"
	slots = 2
	// lease is how long a slot of a dead worker stays taken.
	lease = 2 * time.Second
)

var (
	file = flag.String("file", "", "SQLite file that the workers share; empty to start four workers on a new one")
	node = flag.String("node", "worker", "name of this worker")
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
	if *file == "" {
		return show(ctx)
	}
	return work(ctx)
}

// work is a worker: it waits for a slot, works in it, and waits again should it lose it.
func work(ctx context.Context) error {
	store, err := sqliteleader.Open(*file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	group, err := leader.NewGroup(store, slots, leader.WithNodeID(*node), leader.WithLeaseTime(lease))
	if err != nil {
		return err
	}
	err = group.Campaign(ctx, name, func(ctx context.Context) error {
		held, ok := leader.LeaseFrom(ctx)
		if !ok {
			return nil // lost already
		}
		// Each slot has fences of its own: a store that checks them keeps the greatest one of each slot.
		info := held.Info()
		say(*node, "works in slot %d, fence %d", info.Slot, info.Fence)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if errors.Is(err, context.Canceled) {
		return nil // asked to stop
	}
	return err
}

// say prints the time, who speaks, and what happens.
func say(who, format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), who, fmt.Sprintf(format, args...))
}
