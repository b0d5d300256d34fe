package sqlleader

import (
	"context"
	"errors"
	"fmt"

	"github.com/goleader/leader/backend"
)

// conflicts is how often a statement is tried that met an optimistic conflict.
const conflicts = 3

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

// statement is a [Statement] with the table's name in it.
type statement struct {
	Command

	args   []Arg
	result Result
}

func (b *Backend) statement(s Statement) *statement {
	return &statement{Command: Command{Text: b.named(s.Text), Holder: s.Holder}, args: s.Args, result: s.Result}
}

// exec runs a writing statement and returns what its Result says: 0 if it changed nothing.
func (b *Backend) exec(ctx context.Context, s *statement, v *values) (n int64, err error) {
	if b.writer != nil {
		if err := b.writer.enter(ctx); err != nil {
			return 0, b.fault(ctx, err)
		}
		defer b.writer.leave()
	}
	v.at = b.now()
	err = b.run(ctx, func() error {
		n, err = b.outcome(ctx, s, v)
		return err
	})
	return n, err
}

func (b *Backend) outcome(ctx context.Context, s *statement, v *values) (n int64, err error) {
	if s.result == Returned {
		err := b.handle.Query(ctx, &s.Command, v.list(s.args), func(row Row) error { return row.Scan(&n) })
		return n, err
	}
	result, err := b.handle.Exec(ctx, &s.Command, v.list(s.args))
	if err != nil {
		return 0, err
	}
	if s.result == InsertID {
		return result.LastInsertId()
	}
	return result.RowsAffected()
}

// query runs a reading statement and returns what scan makes of each row.
func query[T any](ctx context.Context, b *Backend, s *statement, v *values, scan func(Row) (T, error)) ([]T, error) {
	var all []T
	v.at = b.now()
	err := b.run(ctx, func() error {
		all = all[:0]
		return b.handle.Query(ctx, &s.Command, v.list(s.args), func(row Row) error {
			one, err := scan(row)
			all = append(all, one)
			return err
		})
	})
	return all, err
}

// now reads the clock that judges expiry, if it is not the database's.
func (b *Backend) now() Reading {
	if b.dialect.Clock == nil {
		return Reading{}
	}
	return b.dialect.Clock()
}

// run calls try, which is one statement, again at once if that was undone because of others, and once more after the
// table was missing and has been created.
func (b *Backend) run(ctx context.Context, try func() error) error {
	if b.invalid != nil {
		return backend.WithKind(b.invalid, backend.Misconfigured)
	}
	err := b.insist(try)
	if err != nil && b.create && b.dialect.NoTable(err) {
		if err = b.migrate(ctx); err == nil {
			err = b.insist(try)
		}
	}
	return b.fault(ctx, err)
}

func (b *Backend) insist(try func() error) error {
	var err error
	for range conflicts {
		if err = try(); err == nil || !b.conflict(err) {
			break
		}
	}
	return err
}

// conflict reports whether err says that the database undid a statement because of others.
func (b *Backend) conflict(err error) bool {
	return b.dialect.Conflict != nil && b.dialect.Conflict(err)
}

// migrate executes the schema. A database that several processes create at once may refuse one of them without waiting.
func (b *Backend) migrate(ctx context.Context) error {
	var err error
	for range conflicts {
		err = b.createTables(ctx)
		if err == nil || !b.conflict(err) && b.dialect.Kind(err) != backend.Unavailable {
			break
		}
	}
	return err
}

func (b *Backend) createTables(ctx context.Context) error {
	for i := range b.schema {
		if _, err := b.handle.Exec(ctx, b.schema[i], nil); err != nil {
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
	kind := backend.KindOf(err) // the handle may have known
	if kind == backend.Unknown {
		kind = b.dialect.Kind(err)
	}
	switch {
	case b.dialect.NoTable(err):
		kind = backend.Misconfigured
		err = fmt.Errorf("%w (create tables %[2]s and %[2]s_records once: Migrate, or the statements of Schema)",
			err, b.table)
	case kind == backend.Denied && b.dialect.Grant != nil && b.dialect.Grant(err):
		err = fmt.Errorf("%w (grant SELECT, INSERT, UPDATE and DELETE on %[2]s and %[2]s_records)", err, b.table)
	}
	if over := ctx.Err(); over != nil && !errors.Is(err, over) {
		err = fmt.Errorf("%w: %w", over, err)
	}
	if kind == backend.Unknown && (errors.Is(err, context.DeadlineExceeded) || disconnected(err) || b.conflict(err)) {
		kind = backend.Unavailable
	}
	if kind == backend.Unknown {
		return err
	}
	return backend.WithKind(err, kind)
}
