package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // the driver of the database

	"github.com/goleader/leader/schedule"
)

// visits counts requests in a table, one row each, and keeps their total.
type visits struct{ db *sql.DB }

func openVisits(ctx context.Context, file string) (*visits, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(1000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	for _, text := range []string{
		`CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, node TEXT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS totals (tick TEXT NOT NULL, visits INTEGER NOT NULL, node TEXT NOT NULL)`,
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			_ = db.Close()
			return nil, err
		}
	}
	return &visits{db}, nil
}

func (v *visits) close() { _ = v.db.Close() }

// total is what one replica does for each tick.
func (v *visits) total(ctx context.Context) error {
	tick, _ := schedule.FireTime(ctx)
	_, err := v.db.ExecContext(ctx, `INSERT INTO totals SELECT ?, count(*), ? FROM visits`,
		tick.UTC().Format(time.RFC3339), *node)
	if err == nil {
		fmt.Printf("%s totals the visits of %s\n", *node, tick.Format(time.TimeOnly))
	}
	return err
}

// ServeHTTP counts a visit and shows the newest total.
func (v *visits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := v.db.ExecContext(r.Context(), `INSERT INTO visits (node) VALUES (?)`, *node); err != nil {
		http.Error(w, "the visit could not be counted", http.StatusServiceUnavailable)
		return
	}
	var (
		tick, by string
		n        int
	)
	row := v.db.QueryRowContext(r.Context(), `SELECT tick, visits, node FROM totals ORDER BY tick DESC LIMIT 1`)
	if err := row.Scan(&tick, &n, &by); err != nil {
		fmt.Fprintln(w, "no total yet")
		return
	}
	fmt.Fprintf(w, "%d visits by %s, says %s\n", n, tick, by)
}
