// Raft-cluster is a service of three processes without any store: they keep the lease among themselves. One of them
// works. When it is killed, another goes on where it can. The program starts the three itself, so that one terminal
// shows what happens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/raftleader"
)

const (
	name = "report"
	// lease is how long the work of a dead process stays taken.
	lease = 2 * time.Second
	// election is for how long the raft leader may be silent before the others elect another one.
	election = 500 * time.Millisecond
	// farewell is for how long a process that is asked to stop remains a node. Others that are asked at the same time need
	// a majority to release what they lead.
	farewell = time.Second
)

var (
	addr  = flag.String("addr", "", "host:port of this process for the others; empty to start three processes")
	peers = flag.String("peers", "", "host:port of all processes, separated by commas")
	dir   = flag.String("dir", "", "folder of this process alone; empty to remember nothing")
	node  = flag.String("node", "", "name of this process")
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
	if *addr == "" {
		return show(ctx)
	}
	return serve(ctx)
}

// serve is one process of the service: it waits until it leads, works, and waits again should it lose the lease.
func serve(ctx context.Context) error {
	store, err := raftleader.Open(ctx, raftleader.Config{
		Addr: *addr, Peers: strings.Split(*peers, ","), Dir: *dir, ElectionTimeout: election,
	})
	if err != nil {
		return err
	}
	defer store.Close()
	elector, err := leader.New(store, leader.WithNodeID(*node), leader.WithLeaseTime(lease))
	if err != nil {
		return err
	}
	say(*node, "has started")
	err = elector.Campaign(ctx, name, func(ctx context.Context) error {
		held, ok := leader.LeaseFrom(ctx)
		if !ok {
			return nil // lost already
		}
		return work(ctx, held.Info().Fence)
	})
	if !errors.Is(err, context.Canceled) {
		return err
	}
	time.Sleep(farewell) // asked to stop
	return nil
}

// work goes on as long as this process leads. What it writes elsewhere would carry the fence, by which a late write of
// a process that has lost the lease is refused.
func work(ctx context.Context, fence uint64) error {
	say(*node, "leads, fence %d", fence)
	for step := 1; ; step++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
			say(*node, "works, step %d", step)
		}
	}
}

// say prints the time, who speaks, and what happens.
func say(who, format string, args ...any) {
	fmt.Printf("%s  %-5s %s\n", time.Now().Format("15:04:05.000"), who, fmt.Sprintf(format, args...))
}
