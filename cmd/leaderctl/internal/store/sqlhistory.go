package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/history"
)

// ErrNoTable says that the table of a history does not exist.
var ErrNoTable = errors.New("the history has no table")

// sqlHistory is a history whose errors have a kind, and [ErrNoTable] if that is what they mean.
type sqlHistory struct {
	*history.SQL

	dialect sqlleader.Dialect
}

func newSQLHistory(db *sql.DB, dialect sqlleader.Dialect, o *history.SQLOptions) (*sqlHistory, error) {
	h, err := history.NewSQL(db, o)
	return &sqlHistory{h, dialect}, err
}

// Migrate implements [History].
func (h *sqlHistory) Migrate(ctx context.Context) error { return h.judge(h.SQL.Migrate(ctx)) }

// Write implements [history.Sink].
func (h *sqlHistory) Write(ctx context.Context, records []history.Record) error {
	return h.judge(h.SQL.Write(ctx, records))
}

// Recent implements [History].
func (h *sqlHistory) Recent(ctx context.Context, name string, limit int) ([]history.Record, error) {
	list, err := h.SQL.Recent(ctx, name, limit)
	return list, h.judge(err)
}

func (h *sqlHistory) judge(err error) error {
	if err == nil {
		return nil
	}
	if h.dialect.NoTable(err) {
		return backend.WithKind(fmt.Errorf("%w: %w", ErrNoTable, err), backend.Misconfigured)
	}
	kind := h.dialect.Kind(err)
	if kind == backend.Unknown && disconnected(err) {
		kind = backend.Unavailable
	}
	return backend.WithKind(err, kind)
}

// disconnected reports whether err says that there is no connection, or none any more.
func disconnected(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, sign := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}
