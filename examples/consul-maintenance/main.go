// Consul-maintenance takes one node of a fleet out of service, works on it, and puts it back. However many nodes want to,
// one at a time does, and the next one enters the moment that it is done.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/consulleader"
)

const (
	// lease is how long a node that died in its window holds up the others, at least: Consul ends a lease up to as late
	// again, and then keeps the name for the lock-delay. It is the shortest that Consul knows.
	lease = 10 * time.Second
	// tidyUp bounds what is done at the end, also after Ctrl-C.
	tidyUp = 5 * time.Second
)

var (
	address = flag.String("consul", "http://127.0.0.1:8500", "URL of the agent of this node")
	name    = flag.String("name", "consul-maintenance", "the service that the nodes offer, and the name of the window")
	node    = flag.String("node", "", "name of this node, which is required")
	reason  = flag.String("reason", "kernel update", "what is done, for people")
	lasts   = flag.Duration("lasts", 5*time.Second, "how long it takes")
	wait    = flag.Duration("wait", time.Hour, "how long to wait for the window")
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
	if *node == "" {
		return errors.New("-node is missing")
	}
	client, err := connect(*address)
	if err != nil {
		return err
	}
	b := consulleader.New(client, nil)
	defer b.Close()
	elector, err := leader.New(b, leader.WithNodeID(*node), leader.WithLeaseTime(lease))
	if err != nil {
		return err
	}
	s := service{client.Agent(), *name, *name + "-" + *node}
	if err := s.register(ctx); err != nil {
		return err
	}
	defer func() {
		if err := s.deregister(ctx); err != nil {
			say("could not deregister: %v", err)
		}
	}()
	return maintain(ctx, elector, s)
}

// maintain waits for the window and works in it.
func maintain(ctx context.Context, elector leader.Elector, s service) (err error) {
	// For people alone. An acquisition that waits tries again after a failure, State does not.
	switch state, err := elector.State(ctx, *name); {
	case err != nil:
		say("does not know who is in the window: %v", err)
	case state.Node != "":
		say("waits for %s: %s", state.Node, state.Metadata["reason"])
	}
	held, err := elector.Acquire(ctx, *name,
		leader.WithWaitTime(*wait), leader.WithMetadata(map[string]string{"reason": *reason}))
	if err != nil {
		return fmt.Errorf("could not enter the window: %w", err)
	}
	say("enters the window, fence %d", held.Info().Fence)
	defer func() {
		// The ctx of the caller may be over, and the next node waits.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
		defer cancel()
		say("leaves the window")
		err = cmp.Or(err, held.Release(ctx))
	}()
	return s.inMaintenance(ctx, *reason, func() error { return work(ctx, held) })
}

// work is what the window is for. It ends at once when the lease is lost, because another node may then enter: what it
// does had better be such that half of it does no harm.
func work(ctx context.Context, held *leader.Lease) error {
	select {
	case <-time.After(*lasts):
		say("is done")
		return nil
	case <-held.Context().Done():
		return held.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// connect takes a URL, with a token as its password where Consul asks for one.
func connect(address string) (*api.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	config := api.DefaultConfig()
	config.Scheme, config.Address = u.Scheme, u.Host
	if token, given := u.User.Password(); given {
		config.Token = token
	}
	return api.NewClient(config)
}

func say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), *node, fmt.Sprintf(format, args...))
}
