package mysqlleader_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// lockBound is how long a statement waits for a row that a stranger has locked.
const lockBound = time.Second

// lockRow locks the row of key in an open transaction until unlock is called.
func lockRow(t testing.TB, db *sql.DB, key string) (unlock func()) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	query := "SELECT name FROM " + sqlleader.DefaultTable + " WHERE name = ? FOR UPDATE"
	if err := tx.QueryRowContext(t.Context(), query, key).Scan(&name); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
	}
}

func TestBackend_RowLockedByAStranger_EndsCallsAfterASecond(t *testing.T) {
	b, db := start(t)
	req := request("a", long)
	lease := win(t, b, req)
	defer lockRow(t, db, "a")()
	for name, call := range map[string]func(ctx context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("a", long)); return err },
		"Renew":      func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":    func(ctx context.Context) error { return lease.Release(ctx, 0) },
		"Abandon":    func(ctx context.Context) error { return b.Abandon(ctx, req) },
		"Break":      func(ctx context.Context) error { return b.Break(ctx, "a", lease.Fence()) },
	} {
		began := time.Now()
		kind(t, name, call(t.Context()), backend.Unavailable)
		if took := time.Since(began); took < lockBound/2 || took > patience/2 {
			t.Errorf("%s returned after %v, want %v", name, took, lockBound)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	began := time.Now()
	if err := lease.Renew(ctx, long); !timedOut(err) || time.Since(began) > lockBound {
		t.Errorf("Renew: %v after %v, want the end of its context", err, time.Since(began))
	}
	if h := inspect(t, b, "a"); h.Fence != lease.Fence() {
		t.Errorf("Inspect: %+v", h)
	}
}

func TestBackend_AbandonedStatements_DoNotPileUpAtTheServer(t *testing.T) {
	const attempts = 100
	b, db, _ := startOwned(t)
	lease := win(t, b, request("a", long))
	unlock := lockRow(t, db, "a")
	defer unlock()
	before := status(t, db, "Threads_connected")
	for range attempts {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := b.TryAcquire(ctx, request("a", long)); !timedOut(err) {
			t.Errorf("TryAcquire: %v", err)
		}
		cancel()
	}
	began := time.Now()
	eventually(t, "the statements have ended though the row is locked", func() bool {
		return status(t, db, "Threads_connected") <= before
	})
	if took := time.Since(began); took > lockBound+patience/4 {
		t.Errorf("it took %v", took)
	}
	unlock()
	renew(t, lease)
}
