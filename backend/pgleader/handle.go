package pgleader

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// client is what runs statements: a pool, or a connection of one.
type client interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// handle runs statements on the user's pool, and those on which leases depend where the keeper says.
type handle struct {
	pool   *pgxpool.Pool
	keeper *keeper
	closed atomic.Bool
}

func (h *handle) Exec(ctx context.Context, c *sqlleader.Command, args []any) (sql.Result, error) {
	var tag pgconn.CommandTag
	err := h.run(ctx, c, func(on client) (err error) {
		tag, err = on.Exec(ctx, c.Text, args...)
		return err
	})
	return driver.RowsAffected(tag.RowsAffected()), err
}

func (h *handle) Query(ctx context.Context, c *sqlleader.Command, args []any, scan func(sqlleader.Row) error) error {
	return h.run(ctx, c, func(on client) error {
		rows, err := on.Query(ctx, c.Text, args...)
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

func (h *handle) run(ctx context.Context, c *sqlleader.Command, do func(on client) error) error {
	switch {
	case h.pool == nil:
		return backend.WithKind(errors.New("the *pgxpool.Pool is nil"), backend.Misconfigured)
	case h.closed.Load():
		return errClosed
	case c.Holder:
		return h.keeper.run(ctx, do)
	}
	conn, err := h.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(conn)
}

func (h *handle) Close() error {
	h.closed.Store(true)
	h.keeper.close()
	return nil
}
