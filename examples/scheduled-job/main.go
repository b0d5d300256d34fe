// Scheduled-job is one replica of a service with a job that is due at every full second. However many replicas run, each
// tick is done by one of them, and when that one dies another goes on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/redisleader"
)

const (
	period = time.Second
	// lease is how long the others wait for a replica that died while it worked.
	lease = 2500 * time.Millisecond
	// kept is how long a tick stays taken, also when its job is done sooner: replicas that wake up a little later must
	// not do it again. It is shorter than the period, so that a tick which was late does not cost the next one.
	kept = 800 * time.Millisecond
	// work is what the job takes.
	work = 300 * time.Millisecond
)

var (
	address = flag.String("redis", "redis://127.0.0.1:6379", "URL of the Redis that the replicas share")
	name    = flag.String("name", "scheduled-job", "what the replicas lead; the list of done ticks is called NAME:log")
	node    = flag.String("node", "", "name of this replica; by default the library makes one")
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
	options := []leader.Option{leader.WithLeaseTime(lease), leader.WithMinLease(kept)}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

// nextTick waits for the next full second.
func nextTick(ctx context.Context) (time.Time, error) {
	tick := time.Now().Truncate(period).Add(period)
	select {
	case <-time.After(time.Until(tick)):
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

// wake does the tick unless another replica does, and says what became of it.
func (r replica) wake(ctx context.Context, tick time.Time) {
	log := slog.With("tick", tick.Unix())
	result, err := r.elector.RunIfLeader(ctx, *name, func(ctx context.Context) error { return r.job(ctx, tick) })
	if err != nil {
		log.WarnContext(ctx, "not done: the store could not be asked", "err", err)
		return
	}
	log.InfoContext(ctx, "tick", "result", result)
}

var errLate = errors.New("too late, another replica may have done this tick")

// job appends the tick to a list in Redis, and works a little.
func (r replica) job(ctx context.Context, tick time.Time) error {
	// Who was first took the name at the tick or later, and kept it for that long.
	if time.Since(tick) >= kept {
		return errLate
	}
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return leader.ErrLeaseLost
	}
	info := held.Info()
	entry := fmt.Sprintf("%d %s %d %d", tick.Unix(), info.Node, info.Fence, time.Now().UnixMilli())
	if err := r.client.RPush(ctx, *name+":log", entry).Err(); err != nil {
		return err
	}
	select {
	case <-time.After(work):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
