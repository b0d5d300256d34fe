package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver of the history

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/history"
)

// openSQLite opens a file, as sqlite:path or sqlite:///path. With o.Create, what it needs is created by the first use.
func openSQLite(ctx context.Context, l *Location, o Options) (*Store, error) {
	options := &sqliteleader.Options{Table: l.Own("table")}
	records := l.Own("history_table")
	if err := l.Done(); err != nil {
		return nil, err
	}
	if len(l.Hosts) > 0 || l.User != "" {
		return nil, errors.New("a file has no host: write sqlite:path, or sqlite:///path for one from the root")
	}
	path := l.Path
	if l.rooted {
		path = "/" + path
	}
	b, err := sqliteleader.Open(path, options)
	if err != nil {
		return nil, backend.WithKind(err, backend.Unknown) // it says what is wrong with the URL
	}
	s := &Store{Driver: b, Migrate: b.Migrate, Rights: "the right to write the file and its folder"}
	s.closes(b.Close)
	// The backend's own handle is not for strangers.
	db, err := sql.Open("sqlite", sqliteURI(path, o.Create))
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	s.closes(db.Close)
	s.History, err = newCreating(db, records)
	if err == nil && !o.Create {
		err = requireTable(ctx, db, path, tableOf(options.Table, o))
	}
	if err != nil {
		s.Close(connectTime)
		return nil, err
	}
	return s, nil
}

// tableOf is the table that has to be there, "" if the file alone has to: a history's table may come with the first run.
func tableOf(leases string, o Options) string {
	if o.History {
		return ""
	}
	return cmp.Or(leases, sqlleader.DefaultTable)
}

func sqliteURI(path string, create bool) string {
	uri := "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?_pragma=busy_timeout(250)"
	if !create {
		uri += "&mode=rw"
	}
	return uri
}

// requireTable keeps who only looks from making a file of a mistyped path, or tables in one of somebody else.
func requireTable(ctx context.Context, db *sql.DB, path, table string) error {
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no file %s", path)
		}
		return backend.WithKind(err, backend.Misconfigured)
	}
	if table == "" {
		return nil
	}
	schema, plain, ok := strings.Cut(table, ".")
	if !ok {
		schema, plain = "main", table
	}
	var there int
	query := "SELECT count(*) FROM " + schema + ".sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
	if err := db.QueryRowContext(ctx, query, plain).Scan(&there); err != nil {
		return backend.WithKind(fmt.Errorf("read the file %s: %w", path, err), sqlleader.SQLite().Kind(err))
	}
	if there == 0 {
		err := fmt.Errorf("the file %s has no table %s: leaderctl migrate makes it", path, table)
		return backend.WithKind(err, backend.Misconfigured)
	}
	return nil
}

// creating is a history whose table is made by the first record, as the backend does with its own.
type creating struct{ *sqlHistory }

func newCreating(db *sql.DB, table string) (*creating, error) {
	h, err := newSQLHistory(db, sqlleader.SQLite(), &history.SQLOptions{Table: table})
	return &creating{h}, err
}

// Write implements [history.Sink].
func (c *creating) Write(ctx context.Context, records []history.Record) error {
	if err := c.sqlHistory.Write(ctx, records); err == nil {
		return nil
	}
	if err := c.Migrate(ctx); err != nil {
		return err
	}
	return c.sqlHistory.Write(ctx, records)
}

// Recent takes a missing table for an empty history, and writes nothing.
func (c *creating) Recent(ctx context.Context, name string, limit int) ([]history.Record, error) {
	list, err := c.sqlHistory.Recent(ctx, name, limit)
	if errors.Is(err, ErrNoTable) {
		return nil, nil
	}
	return list, err
}
