// Dynamodb-export is one of several processes that export orders from a DynamoDB table to files, batch by batch. One of
// them leads and exports; when it dies another goes on where it was.
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

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/dynamoleader"
)

const (
	name = "dynamodb-export"
	// lease is how long the others wait for a leader that died.
	lease = 3 * time.Second
	// period is how long the leader rests when there is too little to export, or after a failure.
	period = 500 * time.Millisecond
)

var (
	endpoint = flag.String("url", "", "URL of the DynamoDB endpoint; by default that of the Region")
	table    = flag.String("table", "orders", "name of the table with the orders")
	folder   = flag.String("folder", "export", "folder for the files, which all processes share")
	node     = flag.String("node", "", "name of this process; by default the library makes one")
	pace     = flag.Duration("pace", 0, "rest between two batches, to watch it")
	seed     = flag.Int("seed", 0, "make the tables and this many orders, and do nothing else")
	lives    = flag.Duration("lives", 0, "how long to live; 0 means until interrupted")
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
	client, err := dial(ctx)
	if err != nil {
		return err
	}
	b := dynamoleader.New(client, nil)
	defer b.Close()
	o := orders{client: client, table: *table}
	if *seed > 0 {
		return errors.Join(b.Migrate(ctx), o.make(ctx, *seed))
	}
	elector, err := leader.New(b, electorOptions()...)
	if err != nil {
		return err
	}
	e := exporter{orders: o, folder: *folder}
	err = elector.Campaign(ctx, name, e.lead, leader.WithRequeue())
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

func dial(ctx context.Context) (*dynamodb.Client, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if *endpoint != "" {
			o.BaseEndpoint = endpoint
		}
	}), nil
}

func electorOptions() []leader.Option {
	opts := []leader.Option{leader.WithLeaseTime(lease)}
	if *node != "" {
		opts = append(opts, leader.WithNodeID(*node))
	}
	return opts
}

// exporter exports what has not been exported while it leads.
type exporter struct {
	orders orders
	folder string
}

// lead exports until the lease is over. A failure ends the term, and the next leader begins at the checkpoint.
func (e exporter) lead(ctx context.Context) error {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return nil
	}
	say("leads, fence %d", held.Info().Fence)
	err := e.export(ctx, held)
	say("leads no longer: %v", err)
	_ = rest(ctx, period) // A failure that lasts must not be met at once again.
	return nil            // WithRequeue: campaign again
}

func (e exporter) export(ctx context.Context, held *leader.Lease) error {
	done, err := e.orders.checkpoint(ctx)
	if err != nil {
		return err
	}
	say("goes on after order %d", done)
	for {
		batch, err := e.orders.after(ctx, done)
		if err != nil {
			return err
		}
		// A file has a whole batch, so that a leader which was frozen can only write what its successor wrote as well.
		if len(batch) < batchSize {
			if err := rest(ctx, period); err != nil {
				return err
			}
			continue
		}
		// The file first: a batch whose checkpoint is not set is exported again, to the same file.
		if err := write(e.folder, batch); err != nil {
			return err
		}
		last := batch[len(batch)-1].Number
		if err := e.orders.setCheckpoint(ctx, held, last); err != nil {
			return err
		}
		say("exported orders %d to %d", batch[0].Number, last)
		done = last
		if err := rest(ctx, *pace); err != nil {
			return err
		}
	}
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), *node, fmt.Sprintf(format, args...))
}
