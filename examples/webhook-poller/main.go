// Webhook-poller is one of several processes that send webhooks from a queue in MongoDB. One of them leads and sends;
// when it dies another goes on, with what the dead one had not finished too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"golang.org/x/sync/errgroup"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mongoleader"
)

const (
	name = "webhook-poller"
	// lease is how long the others wait for a leader that died.
	lease = 3 * time.Second
	// period is how long a sender rests when there is nothing to send.
	period = 200 * time.Millisecond
	// senders is how many webhooks the leader sends at a time.
	senders = 3
)

var (
	address  = flag.String("mongo", "mongodb://127.0.0.1:27017", "URL of the MongoDB that the processes share")
	database = flag.String("database", "webhook-poller", "name of the database; the queue is its collection webhooks")
	node     = flag.String("node", "", "name of this process; by default the library makes one")
	lives    = flag.Duration("lives", 0, "how long to live; 0 means until interrupted")
	receives = flag.String("receive", "", "be a receiver of webhooks at this address instead")
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
	if *receives != "" {
		return receive(ctx, *receives)
	}
	// What a majority has acknowledged no failover forgets, a claim least of all.
	client, err := mongo.Connect(options.Client().ApplyURI(*address).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		return err
	}
	defer client.Disconnect(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends anyway
	b := mongoleader.New(client.Database(*database), nil)
	defer b.Close()
	elector, err := leader.New(b, electorOptions()...)
	if err != nil {
		return err
	}
	p := poller{queue{client.Database(*database).Collection("webhooks")}}
	err = elector.Campaign(ctx, name, p.lead, leader.WithRequeue())
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

func electorOptions() []leader.Option {
	opts := []leader.Option{leader.WithLeaseTime(lease)}
	if *node != "" {
		opts = append(opts, leader.WithNodeID(*node))
	}
	return opts
}

// poller sends what is in the queue while it leads.
type poller struct{ queue queue }

// lead sends until the lease is over. A failure of the queue ends the term: a claim whose fate is not known belongs to
// this fence, and the next term, under a greater one, takes it over.
func (p poller) lead(term context.Context) error {
	held, trusted := leader.LeaseFrom(term)
	if !trusted {
		return nil
	}
	say("leads, fence %d", held.Info().Fence)
	all, ctx := errgroup.WithContext(term)
	for range senders {
		all.Go(func() error { return p.poll(ctx, held) })
	}
	err := all.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, leader.ErrLeaseLost) {
		err = cause
	}
	say("leads no longer: %v", err)
	_ = rest(term) // so that a queue that fails for long is not asked all the time
	return nil     // WithRequeue: campaign again
}

// poll sends one webhook after the other. It returns an error if the queue fails or ctx is over.
func (p poller) poll(ctx context.Context, held *leader.Lease) error {
	for {
		w, found, err := p.queue.claim(ctx, held)
		if err != nil {
			return err
		}
		if found {
			if err := p.queue.finish(ctx, held, w, post(ctx, w)); err != nil {
				return err
			}
			continue
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
}

func rest(ctx context.Context) error {
	select {
	case <-time.After(period):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), *node, fmt.Sprintf(format, args...))
}
