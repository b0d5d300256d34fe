package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mysqlleader"
)

// createTotals makes the tables of the shop. Orders are written by others.
func createTotals(ctx context.Context, db *sql.DB) error {
	for _, text := range []string{
		`CREATE TABLE IF NOT EXISTS orders (
			id BIGINT AUTO_INCREMENT PRIMARY KEY, tenant VARCHAR(64) NOT NULL, amount BIGINT NOT NULL, KEY (tenant))`,
		`CREATE TABLE IF NOT EXISTS totals (
			tenant VARCHAR(64) PRIMARY KEY, total BIGINT NOT NULL, fence BIGINT NOT NULL, node VARCHAR(64) NOT NULL)`,
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// totals are those of one tenant.
type totals struct {
	db     *sql.DB
	store  *mysqlleader.Backend
	tenant string
}

// update writes the total of the orders, if it is another than before. Guard comes last: a process that was frozen in the
// middle and goes on when another leads the tenant commits nothing.
func (t totals) update(ctx context.Context, held *leader.Lease) (total int64, changed bool, err error) {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	before := int64(-1)
	row := tx.QueryRowContext(ctx, `SELECT coalesce(sum(amount), 0),
		coalesce((SELECT total FROM totals WHERE tenant = ?), -1) FROM orders WHERE tenant = ?`, t.tenant, t.tenant)
	if err := row.Scan(&total, &before); err != nil {
		return 0, false, err
	}
	if total < 0 {
		return 0, false, fmt.Errorf("the orders of %s add up to %d, which cannot be", t.tenant, total)
	}
	if total == before {
		return total, false, nil
	}
	_, err = tx.ExecContext(ctx, `REPLACE INTO totals (tenant, total, fence, node) VALUES (?, ?, ?, ?)`,
		t.tenant, total, int64(held.Info().Fence), *node) //nolint:gosec // a fence fits, it starts at a time in µs
	if err != nil {
		return 0, false, err
	}
	if err := t.store.Guard(ctx, tx, held); err != nil {
		return 0, false, err
	}
	return total, true, tx.Commit()
}
