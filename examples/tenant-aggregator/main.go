// Tenant-aggregator is one process of a service that keeps a total of the orders of each tenant. Every tenant has a leader
// of its own, so that tenants are spread over the processes, and what goes wrong with one does not touch the others.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mysqlleader"
)

const (
	// lease is how long the tenants of a dead process wait.
	lease = 3 * time.Second
	// pause is the time between two looks at the orders of a tenant, and after a failure.
	pause = 200 * time.Millisecond
)

var (
	dsn     = flag.String("dsn", "root@tcp(127.0.0.1:3306)/shop", "data source name of the MariaDB or MySQL")
	node    = flag.String("node", "node", "name of this process")
	tenants = flag.String("tenants", "acme,globex,initech", "the tenants, separated by commas")
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
	config, err := mysql.ParseDSN(*dsn)
	if err != nil {
		return err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxIdleConns(8)
	store := mysqlleader.New(db, nil)
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	if err := createTotals(ctx, db); err != nil {
		return err
	}

	var services sync.WaitGroup
	for tenant := range strings.SplitSeq(*tenants, ",") {
		// The namespace keeps the names of tenants apart, whatever they are.
		elector, err := leader.New(store,
			leader.WithNamespace(tenant), leader.WithNodeID(*node), leader.WithLeaseTime(lease))
		if err != nil {
			return err
		}
		services.Go(func() { aggregator{elector, totals{db, store, tenant}}.serve(ctx) })
	}
	services.Wait()
	return nil
}

// aggregator keeps the total of one tenant.
type aggregator struct {
	elector leader.Elector
	totals  totals
}

// serve leads whenever it can. A failure ends the term, and after a pause it, or another process, tries again.
func (a aggregator) serve(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.elector.Campaign(ctx, "aggregate", a.lead); err != nil && ctx.Err() == nil {
			log.Printf("%s: %v", a.totals.tenant, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// lead looks at the orders again and again.
func (a aggregator) lead(ctx context.Context) error {
	held, ok := leader.LeaseFrom(ctx)
	if !ok {
		return nil // lost already
	}
	fmt.Printf("%s leads %s, fence %d\n", *node, a.totals.tenant, held.Info().Fence)
	for {
		total, changed, err := a.totals.update(ctx, held)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if changed {
			fmt.Printf("%s totals %s: %d\n", *node, a.totals.tenant, total)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
