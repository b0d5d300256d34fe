package pgleader

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

var errClosed = errors.New("backend is closed")

// Options configure a [Backend]. The zero value means the defaults.
type Options struct {
	// Table is the table's name, [sqlleader.DefaultTable] if empty; see [sqlleader.Options].
	Table string
	// CreateTable makes a statement that finds no table create both, as Migrate does.
	CreateTable bool
}

// Backend elects on a table of one PostgreSQL, with the abilities of [sqlleader.Backend]. All methods may be called
// concurrently. Use [New]: the zero value is not ready.
type Backend struct {
	*sqlleader.Backend

	feed    *feed
	invalid error // why the pool is refused
}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.Waiter       = (*Backend)(nil)
	_ backend.Watcher      = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
)

// New returns a backend on a table that pool reaches. The pool stays the caller's, who closes it after the Backend. The
// Backend owns up to two connections beside it, made as the pool makes its own: one for renewals and releases, opened by
// the first of them, and one that listens while somebody waits or watches. New does no I/O. opts may be nil.
func New(pool *pgxpool.Pool, opts *Options) *Backend {
	if opts == nil {
		opts = &Options{}
	}
	dialect := sqlleader.PostgreSQL()
	dialect.Blocking = false
	h := &handle{pool: pool, keeper: newKeeper(pool)}
	b := &Backend{Backend: sqlleader.Over(h, dialect, (*sqlleader.Options)(opts))}
	if pool == nil {
		b.invalid = backend.WithKind(errors.New("the *pgxpool.Pool is nil"), backend.Misconfigured)
	}
	b.feed = newFeed(pool, cmp.Or(opts.Table, sqlleader.DefaultTable), dialect.Kind)
	return b
}

// Check reports a bad table name and a nil pool.
func (b *Backend) Check() error { return errors.Join(b.Backend.Check(), b.invalid) }

// Guard makes a transaction of the caller's on the same database depend on a lease: it locks the lease's row, if the lease
// is current by the database's clock, and returns an error that wraps [leader.ErrLeaseLost] if it is not. Nobody can take
// the lease over before the transaction has ended, so what it writes is committed by the leader or not at all.
//
// Call it last, right before the commit: while the transaction lives it also blocks the renewals of this lease, though of
// no other. ctx governs the wait for the row. Under REPEATABLE READ and SERIALIZABLE the database may refuse with a
// serialization failure, because the row was renewed since the transaction began; the transaction is then to be repeated.
func (b *Backend) Guard(ctx context.Context, tx pgx.Tx, l *leader.Lease) error {
	return b.Protect(l, func(text string, args []any) (fence int64, err error) {
		err = tx.QueryRow(ctx, text, args...).Scan(&fence)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, nil
		}
		if over := ctx.Err(); over != nil && err != nil && !errors.Is(err, over) {
			err = fmt.Errorf("%w: %w", over, err)
		}
		return fence, err
	})
}

// Close ends the waiters and watchers with an error, and closes the connections that the Backend owns; the pool stays
// open. Calls after it fail, leases end by their time. It waits a moment for statements in progress.
func (b *Backend) Close() error {
	b.feed.close()
	return b.Backend.Close()
}
