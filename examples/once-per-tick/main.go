// Once-per-tick is one replica of a service with a job that is due every two seconds, and must be done once for each
// tick, although the clocks of the replicas disagree and any of them may be killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/redisleader"
)

const (
	period = 2 * time.Second
	// work is what the job takes.
	work = 20 * time.Millisecond
	// lease is how long the others wait for a replica that died while it worked.
	lease = time.Second
	// wait is how long a tick waits for another one to be done. It is longer than the lease, so that a replica that died
	// costs no tick, and shorter than the period.
	wait = 1500 * time.Millisecond
	// kept is how long a tick stays marked as done. It is far longer than what the clocks may differ.
	kept = 10 * time.Minute
)

var (
	address = flag.String("redis", "redis://127.0.0.1:6379", "URL of the Redis that the replicas share")
	name    = flag.String("name", "once-per-tick", "what the replicas lead; the list of runs is called NAME:log")
	node    = flag.String("node", "", "name of this replica; by default the library makes one")
	skew    = flag.Duration("skew", 0, "how far the clock of this replica is ahead")
	ticks   = flag.Int("ticks", 0, "how many ticks to live; 0 means until interrupted")
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
	options, err := redis.ParseURL(*address)
	if err != nil {
		return err
	}
	options.ContextTimeoutEnabled = true // requests end with their deadlines, see redisleader
	client := redis.NewClient(options)
	defer client.Close()
	elector, err := leader.New(redisleader.New(client, nil), electorOptions()...)
	if err != nil {
		return err
	}
	r := replica{elector, client}
	for n := 0; n != *ticks || *ticks == 0; n++ {
		tick, err := nextTick(ctx)
		if err != nil {
			return nil // asked to stop
		}
		r.wake(ctx, tick)
	}
	return nil
}

func electorOptions() []leader.Option {
	options := []leader.Option{leader.WithLeaseTime(lease), leader.WithWaitTime(wait)}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

// clock is what this replica takes for the time.
func clock() time.Time { return time.Now().Add(*skew) }

// nextTick waits for the next tick by the clock of this replica.
func nextTick(ctx context.Context) (time.Time, error) {
	now := clock()
	tick := now.Truncate(period).Add(period)
	select {
	case <-time.After(tick.Sub(now)):
		return tick, nil
	case <-ctx.Done():
		return tick, ctx.Err()
	}
}

// replica is one of several processes that do the same.
type replica struct {
	elector leader.Elector
	client  *redis.Client
}

// wake does the tick unless a replica has done it, and says what became of it. The key of the run is the tick, not the
// time at which somebody wakes up: that is what all replicas agree on.
func (r replica) wake(ctx context.Context, tick time.Time) {
	log := slog.With("tick", tick.Unix())
	key := strconv.FormatInt(tick.Unix(), 10)
	result, err := r.elector.RunIfLeader(ctx, *name, func(ctx context.Context) error { return r.job(ctx, tick) },
		leader.WithRunKey(key, kept))
	if err != nil {
		log.WarnContext(ctx, "not done: the store could not be asked", "err", err)
		return
	}
	log.InfoContext(ctx, "tick", "result", result)
}

// job works a little, and appends to a list in Redis when it begins and when it is done.
func (r replica) job(ctx context.Context, tick time.Time) error {
	if err := r.note(ctx, tick, "begins"); err != nil {
		return err
	}
	select {
	case <-time.After(work):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.note(ctx, tick, "ends")
}

func (r replica) note(ctx context.Context, tick time.Time, what string) error {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return errors.New("the lease is over")
	}
	info := held.Info()
	entry := fmt.Sprintf("%d %s %s %d", tick.Unix(), what, info.Node, info.Fence)
	return r.client.RPush(ctx, *name+":log", entry).Err()
}
