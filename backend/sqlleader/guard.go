package sqlleader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/goleader/leader"
)

// Guard makes a transaction of the caller's on the same database depend on a lease: it locks the lease's row, if the lease
// is current by the database's clock, and returns an error that wraps [leader.ErrLeaseLost] if it is not. Nobody can take
// the lease over before the transaction has ended, so what it writes is committed by the leader or not at all.
//
// Call it last, right before the commit: while the transaction lives it also blocks the holder's own renewals. ctx
// governs the wait for the row. Under REPEATABLE READ and SERIALIZABLE the database may refuse with a serialization
// failure, because the row was renewed since the transaction began; the transaction is then to be repeated. SQLite locks
// the file for writing.
func (b *Backend) Guard(ctx context.Context, tx *sql.Tx, l *leader.Lease) error {
	return b.Protect(l, func(text string, args []any) (int64, error) {
		if b.guard.result != Returned {
			result, err := tx.ExecContext(ctx, text, args...)
			if err != nil {
				return 0, b.fault(ctx, err)
			}
			return result.RowsAffected()
		}
		var fence int64
		err := tx.QueryRowContext(ctx, text, args...).Scan(&fence)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		return fence, b.fault(ctx, err)
	})
}

// Protect is [Backend.Guard] for transactions of another kind than *sql.Tx: run executes the statement in it and returns
// the integer in the row that it returned, or the number of rows it changed, 0 if there was none.
func (b *Backend) Protect(l *leader.Lease, run func(text string, args []any) (int64, error)) error {
	info := l.Info()
	if err := l.Err(); err != nil {
		return fmt.Errorf("guard %q: %w", info.Name, err)
	}
	v := &values{key: info.Key, fence: int64(info.Fence), at: b.now()} //nolint:gosec // fences of this package are positive
	found, err := run(b.guard.Text, v.list(b.guard.args))
	if err != nil {
		return fmt.Errorf("guard %q: %w", info.Name, err)
	}
	if found == 0 {
		return fmt.Errorf("guard %q: %w: fence %d is not current", info.Name, leader.ErrLeaseLost, info.Fence)
	}
	return nil
}
