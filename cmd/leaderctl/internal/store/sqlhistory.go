package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
	kind := h.dialect.KindOf(err)
	if h.dialect.NoTable(err) {
		err = fmt.Errorf("%w: %w", ErrNoTable, err)
	}
	return backend.WithKind(err, kind)
}
