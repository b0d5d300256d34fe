package sqlleader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/goleader/leader/backend"
)

// conflicts is how often a statement is tried that met an optimistic conflict.
const conflicts = 3

var errClosed = errors.New("backend is closed")

// turn is for one at a time, if it has room for one.
type turn chan struct{}

func (t turn) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) leave() { <-t }

// statement is a [Statement] with the table's name in it, prepared at its first use.
type statement struct {
	text     string
	args     []Arg
	prepared atomic.Pointer[sql.Stmt]
}

func (b *Backend) statement(s Statement) statement {
	return statement{text: b.named(s.Text), args: s.Args}
}

// exec runs a writing statement and reports whether it changed a row.
func (b *Backend) exec(ctx context.Context, s *statement, v *values) (changed bool, err error) {
	if b.writer != nil {
		if err := b.writer.enter(ctx); err != nil {
			return false, b.fault(ctx, err)
		}
		defer b.writer.leave()
	}
	err = b.run(ctx, s, func(stmt *sql.Stmt) error {
		result, err := stmt.ExecContext(ctx, v.list(s.args)...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		changed = n > 0
		return err
	})
	return changed, err
}

// query runs a reading statement and gives each row to scan.
func (b *Backend) query(ctx context.Context, s *statement, v *values, scan func(*sql.Rows) error) error {
	return b.run(ctx, s, func(stmt *sql.Stmt) error {
		rows, err := stmt.QueryContext(ctx, v.list(s.args)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// run gives use the prepared form of s, once more after the table was missing and has been created.
func (b *Backend) run(ctx context.Context, s *statement, use func(*sql.Stmt) error) error {
	if b.invalid != nil {
		return backend.WithKind(b.invalid, backend.Misconfigured)
	}
	err := b.try(ctx, s, use)
	if err != nil && b.create && b.dialect.NoTable(err) {
		if err = b.migrate(ctx); err == nil {
			err = b.try(ctx, s, use)
		}
	}
	return b.fault(ctx, err)
}

func (b *Backend) try(ctx context.Context, s *statement, use func(*sql.Stmt) error) error {
	stmt, err := b.prepare(ctx, s)
	if err != nil {
		return err
	}
	return use(stmt)
}

// prepare returns the prepared form of s. Two callers may prepare it at once, since one that waits for a connection must
// not hold up the other beyond its context.
func (b *Backend) prepare(ctx context.Context, s *statement) (*sql.Stmt, error) {
	if stmt := s.prepared.Load(); stmt != nil {
		return stmt, nil
	}
	stmt, err := b.db.PrepareContext(ctx, s.text)
	if err != nil {
		return nil, err
	}
	if !b.keep(stmt) {
		_ = stmt.Close() //nolint:sqlclosecheck // it stays open on the other path
		return nil, errClosed
	}
	s.prepared.Store(stmt)
	return stmt, nil
}

// keep has stmt closed with b, unless b is closed already.
func (b *Backend) keep(stmt *sql.Stmt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.prepared = append(b.prepared, stmt)
	}
	return !b.closed
}

// migrate executes the schema. A database that several processes create at once may refuse one of them without waiting.
func (b *Backend) migrate(ctx context.Context) error {
	var err error
	for range conflicts {
		if err = b.createTables(ctx); err == nil || b.dialect.Kind(err) != backend.Unavailable {
			break
		}
	}
	return err
}

func (b *Backend) createTables(ctx context.Context) error {
	for _, ddl := range b.Schema() {
		if _, err := b.db.ExecContext(ctx, ddl); err != nil {
			return err
		}
	}
	return nil
}

// fault classifies an error of the driver and makes sure that it wraps ctx's if that is over.
func (b *Backend) fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := backend.KindOf(err) // the handle's connector may have known
	if kind == backend.Unknown {
		kind = b.dialect.Kind(err)
	}
	if b.dialect.NoTable(err) {
		kind = backend.Misconfigured
		err = fmt.Errorf("%w (create tables %[2]s and %[2]s_records once: Migrate, or the statements of Schema)",
			err, b.table)
	}
	if over := ctx.Err(); over != nil && !errors.Is(err, over) {
		err = fmt.Errorf("%w: %w", over, err)
	}
	if kind == backend.Unknown && errors.Is(err, context.DeadlineExceeded) {
		kind = backend.Unavailable
	}
	if kind == backend.Unknown {
		return err
	}
	return backend.WithKind(err, kind)
}
