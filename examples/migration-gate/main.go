// Migration-gate is one process of a service that brings its database to the newest schema when it boots. However many
// processes boot at once, one of them migrates, and none of them goes on before the schema is ready.
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

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/pgleader"
)

const (
	name = "migration-gate"
	// lease is how long the others wait for a process that died while it migrated.
	lease = 10 * time.Second
)

var (
	address = flag.String("postgres", "postgres://postgres@127.0.0.1:5432/postgres", "URL of the PostgreSQL")
	node    = flag.String("node", "", "name of this process; by default the library makes one")
	wait    = flag.Duration("wait", time.Minute, "how long to wait while another process migrates")
	folder  = flag.String("migrations", "", "folder of the migrations; by default those of the program")
)

func main() {
	flag.Parse()
	became, err := boot()
	switch {
	case errors.Is(err, errBusy):
		fmt.Printf("skipped: %v\n", err)
		os.Exit(1) // so that it is started again
	case err != nil:
		fmt.Printf("failed: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(became)
	// Here the service would begin to serve.
}

// errBusy says that the schema is not ready, because somebody else is still at it.
var errBusy = errors.New("another process migrates")

// boot makes the schema ready, or says why it is not.
func boot() (became string, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	migrations, err := load(*folder)
	if err != nil {
		return "", err
	}
	pool, err := pgxpool.New(ctx, *address)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	b := pgleader.New(pool, nil)
	defer b.Close()
	if err := b.Migrate(ctx); err != nil {
		return "", err
	}
	elector, err := leader.New(b, electorOptions()...)
	if err != nil {
		return "", err
	}
	return gate{elector, schema{pool, b, migrations}}.pass(ctx)
}

func electorOptions() []leader.Option {
	options := []leader.Option{leader.WithLeaseTime(lease), leader.WithWaitTime(*wait)}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

// gate lets a process pass when the schema is the newest.
type gate struct {
	elector leader.Elector
	schema  schema
}

// pass migrates unless somebody else has done it or is doing it.
func (g gate) pass(ctx context.Context) (became string, err error) {
	// Most boots end here, without an election.
	version, err := g.schema.version(ctx)
	if err != nil {
		return "", err
	}
	if version >= g.schema.newest() {
		return alreadyApplied(version), nil
	}
	result, err := leader.RunIfLeader(ctx, g.elector, name, g.migrate)
	switch {
	case err != nil:
		return "", err
	case result.Reason == leader.Contended:
		return "", fmt.Errorf("%w: %s", errBusy, result.Holder.Node)
	default:
		return result.Value()
	}
}

// migrate looks again, because the leader before this one may have done all, and does what is left.
func (g gate) migrate(ctx context.Context) (became string, err error) {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return "", leader.ErrLeaseLost
	}
	from, err := g.schema.version(ctx)
	if err != nil {
		return "", err
	}
	if from >= g.schema.newest() {
		return alreadyApplied(from), nil
	}
	fmt.Printf("leads: migrates from version %d\n", from)
	for _, m := range g.schema.after(from) {
		if err := g.schema.apply(ctx, held, m); err != nil {
			return "", errors.Join(fmt.Errorf("%s: %w", m.name, err), context.Cause(ctx))
		}
	}
	return fmt.Sprintf("migrated: from version %d to %d under fence %d", from, g.schema.newest(), held.Info().Fence), nil
}

func alreadyApplied(version int) string { return fmt.Sprintf("already applied: version %d", version) }
