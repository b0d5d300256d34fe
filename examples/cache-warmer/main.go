// Cache-warmer is one of several processes that keep a cache warm. The cache has partitions, each with a lock of its own:
// whoever is free warms the next one. When a process is killed, the others take its partitions over.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/hazelcastleader"
)

// pause is how long a process rests when others have all the partitions that are left.
const pause = 50 * time.Millisecond

var (
	members    = flag.String("hazelcast", "127.0.0.1:5701", "addresses of members, separated by commas")
	name       = flag.String("name", "cache-warmer", "name of the cache, and of the locks of its partitions")
	node       = flag.String("node", "", "name of this process; by default the library makes one")
	partitions = flag.Int("partitions", 6, "how many partitions the cache has")
	items      = flag.Int("items", 5, "how many items a partition has")
	load       = flag.Duration("load", 40*time.Millisecond, "how long it takes to load an item")
	every      = flag.Duration("every", 5*time.Second, "how often the cache is warmed anew; the same for all processes")
	lease      = flag.Duration("lease", 2*time.Second, "how long the others wait for a process that died")
	lives      = flag.Duration("lives", 0, "how long to live; 0 means until interrupted")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if *partitions < 1 || *items < 1 || *every <= *lease {
		return errors.New("want partitions, items, and a lease that is shorter than the time between two generations")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *lives > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *lives)
		defer cancel()
	}
	client, err := connect(ctx)
	if err != nil {
		return err
	}
	defer shutDown(client)
	entries, err := client.GetMap(ctx, *name)
	if err != nil {
		return err
	}
	b := hazelcastleader.New(client, nil)
	defer b.Close()
	elector, err := leader.New(b, electorOptions()...)
	if err != nil {
		return err
	}
	w := warmer{elector, cache{entries}}
	for ctx.Err() == nil {
		w.warmAll(ctx, time.Now().Truncate(*every))
	}
	return nil
}

// connect opens a client whose configuration is made for the backend.
func connect(ctx context.Context) (*hazelcast.Client, error) {
	var config hazelcast.Config
	config.Logger.Level = logger.ErrorLevel
	config.Cluster.Network.Addresses = strings.Split(*members, ",")
	hazelcastleader.Configure(&config)
	return hazelcast.StartNewClientWithConfig(ctx, config)
}

func shutDown(client *hazelcast.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.Shutdown(ctx)
}

func electorOptions() []leader.Option {
	options := []leader.Option{leader.WithLeaseTime(*lease)}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

// warmer warms what no other process does.
type warmer struct {
	elector leader.Elector
	cache   cache
}

// warmAll warms partitions until all are warm in a generation, whoever did it, or until the next one begins.
func (w warmer) warmAll(ctx context.Context, generation time.Time) {
	ctx, cancel := context.WithDeadline(ctx, generation.Add(*every))
	defer cancel()
	left := rand.Perm(*partitions) // so that processes seldom want the same one
	for len(left) > 0 && ctx.Err() == nil {
		var cold []int
		for _, p := range left {
			if !w.warm(ctx, p, generation) {
				cold = append(cold, p)
			}
		}
		if len(cold) == len(left) {
			rest(ctx, pause)
		}
		left = cold
	}
	if len(left) == 0 {
		say("generation %d is warm", generation.Unix())
	}
	<-ctx.Done()
}

// warm warms a partition unless another process has it. It reports whether the partition is warm.
func (w warmer) warm(ctx context.Context, partition int, generation time.Time) bool {
	lock := *name + ":" + strconv.Itoa(partition)
	result, err := w.elector.RunIfLeader(ctx, lock, func(ctx context.Context) error {
		return w.fill(ctx, partition, generation)
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		say("partition %d: the members could not be asked: %v", partition, err)
	case result.Err != nil:
		say("partition %d is not warm: %v", partition, result.Err)
	}
	return err == nil && result.OK()
}

// fill does the work under the lock. A partition that another process has warmed in this generation is left alone.
func (w warmer) fill(ctx context.Context, partition int, generation time.Time) error {
	done, err := w.cache.isWarm(ctx, partition, generation)
	if err != nil || done {
		return err
	}
	say("warms partition %d of %d", partition, generation.Unix())
	for i := range *items {
		rest(ctx, *load) // from where it is slow
		if err := w.cache.put(ctx, partition, i, generation); err != nil {
			return err
		}
	}
	if err := w.cache.mark(ctx, partition, generation); err != nil {
		return err
	}
	say("has warmed partition %d of %d", partition, generation.Unix())
	return nil
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
