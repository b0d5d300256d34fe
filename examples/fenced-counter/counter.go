package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver
)

// errStale says that somebody with a newer lease has written already.
var errStale = errors.New("refused, a newer lease has written")

// counter is a number in a database. It remembers the greatest fence that wrote, and refuses smaller ones.
type counter struct{ db *sql.DB }

// newCounter opens the counter in a SQLite file, at 0 if it is new.
func newCounter(ctx context.Context, path string) (*counter, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, fence INTEGER NOT NULL);
		INSERT INTO counter VALUES (1, 0, 0) ON CONFLICT DO NOTHING`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &counter{db}, nil
}

func (c *counter) close() error { return c.db.Close() }

// add adds one for the holder of a lease with that fence. The check and the write are one statement: between two, the
// lease could end.
func (c *counter) add(ctx context.Context, fence uint64) (value int, err error) {
	err = c.db.QueryRowContext(ctx,
		`UPDATE counter SET value = value + 1, fence = ?1 WHERE id = 1 AND fence <= ?1 RETURNING value`,
		int64(fence)).Scan(&value) //nolint:gosec // a fence fits, it starts at a time in µs
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("fence %d: %w", fence, errStale)
	}
	return value, err
}

// read returns the number.
func (c *counter) read(ctx context.Context) (value int, err error) {
	err = c.db.QueryRowContext(ctx, `SELECT value FROM counter WHERE id = 1`).Scan(&value)
	return value, err
}
