package store

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/history"
)

// sqlRights are those on the tables of leases and of the history, which have their default names if they are empty.
func sqlRights(leases, records string) string {
	leases, records = cmp.Or(leases, sqlleader.DefaultTable), cmp.Or(records, history.DefaultTable)
	return fmt.Sprintf("SELECT, INSERT, UPDATE and DELETE on the tables %s, %s_records and %s, and the right to create "+
		"them for migrate", leases, leases, records)
}

func postgresRights(leases, records string) string {
	leases, records = cmp.Or(leases, sqlleader.DefaultTable), cmp.Or(records, history.DefaultTable)
	return fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s, %s_records, %s TO the user, and CREATE ON SCHEMA for "+
		"migrate", leases, leases, records)
}

func openPostgres(ctx context.Context, l *Location, _ Options) (*Store, error) {
	options := &pgleader.Options{Table: l.Own("table")}
	records := l.Own("history_table")
	config, err := pgxpool.ParseConfig(l.URL())
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	b := pgleader.New(pool, options)
	s := &Store{Driver: b, Migrate: b.Migrate, Rights: postgresRights(options.Table, records)}
	s.closes(func() error { pool.Close(); return nil })
	s.closes(db.Close)
	s.closes(b.Close)
	s.History, err = newSQLHistory(db, sqlleader.PostgreSQL(),
		&history.SQLOptions{Table: records, Placeholders: history.Dollar})
	return s, err
}
