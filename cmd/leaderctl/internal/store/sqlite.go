package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver of the history

	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/history"
)

// openSQLite opens a file, as sqlite:path or sqlite:///path. What it needs is created by the first use.
func openSQLite(_ context.Context, l *Location, _ Options) (*Store, error) {
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
		return nil, err
	}
	s := &Store{Driver: b, Migrate: b.Migrate, Rights: "the right to write the file and its folder"}
	s.closes(b.Close)
	// The backend's own handle is not for strangers.
	uri := "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?_pragma=busy_timeout(250)"
	db, err := sql.Open("sqlite", uri)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	s.closes(db.Close)
	s.History, err = newCreating(db, records)
	return s, err
}

// creating is a history whose table is made by the first record, as the backend does with its own.
type creating struct{ *history.SQL }

func newCreating(db *sql.DB, table string) (*creating, error) {
	h, err := history.NewSQL(db, &history.SQLOptions{Table: table})
	return &creating{h}, err
}

// Write implements [history.Sink].
func (c *creating) Write(ctx context.Context, records []history.Record) error {
	if err := c.SQL.Write(ctx, records); err == nil {
		return nil
	}
	if err := c.Migrate(ctx); err != nil {
		return err
	}
	return c.SQL.Write(ctx, records)
}

// Recent creates the table too, so that a new file has an empty history.
func (c *creating) Recent(ctx context.Context, name string, limit int) ([]history.Record, error) {
	if err := c.Migrate(ctx); err != nil {
		return nil, err
	}
	return c.SQL.Recent(ctx, name, limit)
}
