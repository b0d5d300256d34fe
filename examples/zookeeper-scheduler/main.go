// Zookeeper-scheduler is one of several schedulers that make a job for every tick of a clock. One of them leads; when it
// dies another one catches up with the ticks that were missed. Each tick gets one job.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/zkleader"
)

// pause is how long the scheduler rests after ZooKeeper has failed.
const pause = 500 * time.Millisecond

var (
	servers = flag.String("zookeeper", "127.0.0.1:2181", "addresses of the ZooKeeper servers, separated by commas")
	name    = flag.String("name", "zookeeper-scheduler", "what the schedulers lead; their nodes are below /NAME")
	node    = flag.String("node", "", "name of this scheduler; by default the library makes one")
	every   = flag.Duration("every", time.Second, "how long a tick is")
	lease   = flag.Duration("lease", 5*time.Second, "how long the others wait for a leader that died")
	lives   = flag.Duration("lives", 0, "how long to live; 0 means until interrupted")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *lives > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *lives)
		defer cancel()
	}
	addresses := strings.Split(*servers, ",")
	// The schedule has a session of its own: what the application does with it cannot hold up a renewal.
	conn, _, err := zk.Connect(addresses, *lease, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer conn.Close()
	b := zkleader.New(addresses, &zkleader.Options{SessionTimeout: *lease})
	defer b.Close()
	elector, err := leader.New(b, electorOptions()...)
	if err != nil {
		return err
	}
	s := scheduler{newSchedule(conn, *name), *every}
	err = elector.Campaign(ctx, *name, s.lead, leader.WithRequeue())
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

func electorOptions() []leader.Option {
	options := []leader.Option{leader.WithLeaseTime(*lease)}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

// scheduler makes jobs while it leads.
type scheduler struct {
	schedule schedule
	every    time.Duration
}

// lead makes jobs until the lease is over. After a failure it may not know where the schedule stands, so it takes it over
// again from its own hands.
func (s scheduler) lead(ctx context.Context) error {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return nil
	}
	say("leads, fence %d", held.Info().Fence)
	for ctx.Err() == nil {
		err := s.goOn(ctx, held)
		if errors.Is(err, errStale) {
			say("%v", err)
			break
		}
		if ctx.Err() == nil {
			say("tries again soon: %v", err)
			rest(ctx, pause)
		}
	}
	say("leads no longer: %v", context.Cause(ctx))
	return nil // WithRequeue: campaign again
}

// goOn takes the schedule over where it stands, and makes a job for each tick from there on.
func (s scheduler) goOn(ctx context.Context, held *leader.Lease) error {
	at, err := s.schedule.take(held, time.Now().Truncate(s.every))
	if err != nil {
		return err
	}
	say("takes over after tick %d", at.tick.UnixMilli())
	for ctx.Err() == nil {
		next := at.tick.Add(s.every)
		rest(ctx, time.Until(next))
		if ctx.Err() != nil {
			break
		}
		if at, err = s.schedule.add(held, at, next); err != nil {
			return err
		}
		say("made a job for tick %d, %v late", next.UnixMilli(), time.Since(next).Round(time.Millisecond))
	}
	return context.Cause(ctx)
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), *node, fmt.Sprintf(format, args...))
}
