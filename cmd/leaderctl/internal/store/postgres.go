package store

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/history"
)

const (
	sqlRights = "SELECT, INSERT, UPDATE and DELETE on the tables leader_leases, leader_leases_records and leader_history, " +
		"and the right to create them for migrate"

	postgresRights = "GRANT SELECT, INSERT, UPDATE, DELETE ON leader_leases, leader_leases_records, leader_history TO " +
		"the user, and CREATE ON SCHEMA for migrate"
)

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
	s := &Store{Driver: b, Migrate: b.Migrate, Rights: postgresRights}
	s.closes(func() error { pool.Close(); return nil })
	s.closes(db.Close)
	s.closes(b.Close)
	s.History, err = history.NewSQL(db, &history.SQLOptions{Table: records, Placeholders: history.Dollar})
	return s, err
}
