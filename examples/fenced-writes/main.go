// Fenced-writes shows what resources of four kinds do with the late write of a zombie, a node whose lease went to another
// while it was not looking: a table, a Redis key, a document and an object. Each remembers the greatest fence that has
// written, and refuses smaller ones.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

const name = "report"

var (
	redisAddress = flag.String("redis", "", "host and port of a Redis; empty to leave it out")
	mongoURL     = flag.String("mongo", "", "URL of a MongoDB; empty to leave it out")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// errStale says that a resource has been written under a greater fence.
var errStale = errors.New("refused: a later leader has written")

// A resource keeps one text.
type resource interface {
	// write keeps the text of a leader, unless a later one has written: then it wraps errStale.
	write(ctx context.Context, held *leader.Lease, text string) error
	read(ctx context.Context) (text string, err error)
}

// named is a resource with its name for people.
type named struct {
	name string
	resource
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "leader-fenced-writes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	resources, closeAll, err := open(ctx, filepath.Join(dir, "report.db"))
	defer closeAll()
	if err != nil {
		return err
	}
	store, err := sqliteleader.Open(filepath.Join(dir, "leases.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	first, err := leader.New(store, leader.WithNodeID("first"))
	if err != nil {
		return err
	}
	second, err := leader.New(store, leader.WithNodeID("second"))
	if err != nil {
		return err
	}
	return show(ctx, first, second, resources)
}

// show lets the second node take over from the first, which goes on as if nothing had happened.
func show(ctx context.Context, first, second leader.Elector, resources []named) error {
	// A frozen process renews nothing. This one is not frozen, so it must not renew.
	old, err := first.Acquire(ctx, name, leader.WithLeaseTime(time.Second), leader.WithoutAutoExtend())
	if err != nil {
		return err
	}
	if err := writeAll(ctx, old, "the first node's report", resources); err != nil {
		return err
	}
	current, err := second.Acquire(ctx, name, leader.WithWaitTime(time.Minute))
	if err != nil {
		return err
	}
	defer func() { _ = current.Release(ctx) }()
	if err := writeAll(ctx, current, "the second node's report", resources); err != nil {
		return err
	}
	fmt.Printf("the first node, whose lease is over, writes with fence %d once more\n", old.Info().Fence)
	for _, r := range resources {
		err := r.write(ctx, old, "a zombie's report")
		if err == nil {
			return fmt.Errorf("%s accepted the zombie's write", r.name)
		}
		if !errors.Is(err, errStale) {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		text, readErr := r.read(ctx)
		if readErr != nil {
			return readErr
		}
		fmt.Printf("  %-8s %v; it keeps %q\n", r.name, err, text)
	}
	return nil
}

func writeAll(ctx context.Context, held *leader.Lease, text string, resources []named) error {
	info := held.Info()
	fmt.Printf("%s leads with fence %d, and writes\n", info.Node, info.Fence)
	for _, r := range resources {
		if err := r.write(ctx, held, text); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}
