package sqlleader

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	tries  int // when others undo it
}

func (b *Backend) statement(s Statement) *statement {
	return &statement{
		Command: Command{Text: b.named(s.Text), Holder: s.Holder},
		args:    s.Args, result: s.Result, tries: conflicts,
	}
}

// claiming is a statement of an attempt, which is tried again as a whole.
func (b *Backend) claiming(s Statement) *statement {
	c := b.statement(s)
	c.tries = 1
	return c
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
	err = b.run(ctx, s.tries, func() error {
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
	err := b.run(ctx, s.tries, func() error {
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

// run calls try, which is one statement, at most so many times until others do not undo it, and once more after the table
// was missing and has been created.
func (b *Backend) run(ctx context.Context, tries int, try func() error) error {
	if b.invalid != nil {
		return backend.WithKind(b.invalid, backend.Misconfigured)
	}
	err := b.insist(tries, try)
	if err != nil && b.migrates && b.dialect.NoTable(err) {
		if err = b.migrate(ctx); err == nil {
			err = b.insist(tries, try)
		}
	}
	return b.fault(ctx, err)
}

func (b *Backend) insist(tries int, try func() error) error {
	var err error
	for range tries {
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
	kind := b.dialect.KindOf(err)
	if b.dialect.NoTable(err) {
		err = b.hint(err, "create tables {table} and {table}_records once: Migrate, or the statements of Schema")
	} else if b.dialect.Hint != nil {
		err = b.hint(err, b.dialect.Hint(err))
	}
	if over := ended(ctx); over != nil && !errors.Is(err, over) {
		err = fmt.Errorf("%w: %w", over, err)
	}
	if kind == backend.Unknown && (errors.Is(err, context.DeadlineExceeded) || b.conflict(err)) {
		kind = backend.Unavailable
	}
	if kind == backend.Unknown {
		return err
	}
	return backend.WithKind(err, kind)
}

// ended is why ctx is over, nil if it is not. A client's own timers may notice a deadline a moment before ctx does.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// hint adds what to do about err, if there is something.
func (b *Backend) hint(err error, text string) error {
	if text == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, b.named(text))
}
