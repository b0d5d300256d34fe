package mysqlleader_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

const (
	naiveTable = `CREATE TABLE naive (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(255), until TIMESTAMP(3)) ENGINE = InnoDB`
	naiveTake  = `INSERT INTO naive (name, owner, until) VALUES (?, ?, UTC_TIMESTAMP(3) + INTERVAL 30 SECOND)
ON DUPLICATE KEY UPDATE owner = IF(until <= UTC_TIMESTAMP(3), VALUES(owner), owner),
  until = IF(until <= UTC_TIMESTAMP(3), VALUES(until), until)`
	naiveFree = `UPDATE naive SET until = UTC_TIMESTAMP(3) WHERE name = ? AND owner = ?`

	halfMinute = int64(30_000_000)
)

func benchStart(b *testing.B) (backend.Driver, *sql.DB) {
	b.Helper()
	server := testserver.MariaDB(b)
	schema := newSchema(b, server)
	db := connect(b, server, in(schema))
	execute(b, db, naiveTable)
	return migrated(b, db), db
}

// prepare prepares a statement of the dialect, or another.
func prepare(b *testing.B, db *sql.DB, text string) *sql.Stmt {
	b.Helper()
	stmt, err := db.PrepareContext(b.Context(), strings.ReplaceAll(text, "{table}", sqlleader.DefaultTable))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	return stmt
}

// take runs the dialect's statement with the raw client and returns what it says.
func take(ctx context.Context, stmt *sql.Stmt, key, token string) (taken bool, fence int64, err error) {
	var name, owner, spent, metadata sql.RawBytes
	var format, since, left, ttl, noted, renewals int64
	var foreign bool
	rows, err := stmt.QueryContext(ctx, key, token, "node-1", halfMinute, "", token)
	if err != nil {
		return false, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var other sql.RawBytes
		err := rows.Scan(&taken, &name, &format, &other, &spent, &owner, &fence, &since, &left, &foreign, &ttl, &noted,
			&renewals, &metadata)
		if err != nil {
			return false, 0, err
		}
	}
	return taken, fence, rows.Err()
}

// BenchmarkAcquireRelease compares the driver with its own two statements sent by the raw client, and with the plain
// pair of upsert and update, which has no fence.
func BenchmarkAcquireRelease(b *testing.B) {
	driver, db := benchStart(b)
	dialect := sqlleader.MySQL()
	acquire, free := prepare(b, db, dialect.Take.Text), prepare(b, db, dialect.Release.Text)
	upsert, update := prepare(b, db, naiveTake), prepare(b, db, naiveFree)
	var c benchtest.Contest
	c.Add("naive", func(ctx context.Context) error {
		token := rand.Text()
		if _, err := upsert.ExecContext(ctx, "naive", token); err != nil {
			return err
		}
		_, err := update.ExecContext(ctx, "naive", token)
		return err
	})
	c.Add("floor", func(ctx context.Context) error {
		token := rand.Text()
		taken, fence, err := take(ctx, acquire, "floor", token)
		if err != nil || !taken {
			return errors.Join(err, errors.New("not taken"))
		}
		_, err = free.ExecContext(ctx, 0, 0, token, "floor", fence, token, token)
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
		lease, err := driver.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "floor")
	benchtest.Ratio(b, medians, "driver", "naive")
}

// BenchmarkHeld compares a losing attempt with its statement sent by the raw client, and with a losing plain upsert.
func BenchmarkHeld(b *testing.B) {
	driver, db := benchStart(b)
	win(b, driver, request("held", time.Hour))
	acquire, upsert := prepare(b, db, sqlleader.MySQL().Take.Text), prepare(b, db, naiveTake)
	var c benchtest.Contest
	c.Add("naive", func(ctx context.Context) error {
		_, err := upsert.ExecContext(ctx, "held", rand.Text())
		return err
	})
	c.Add("floor", func(ctx context.Context) error {
		taken, _, err := take(ctx, acquire, "held", rand.Text())
		if err == nil && taken {
			err = errors.New("not refused")
		}
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
		if _, err := driver.TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.New("not refused")
		}
		return nil
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "floor")
	benchtest.Ratio(b, medians, "driver", "naive")
}

func BenchmarkRenew(b *testing.B) {
	driver, _ := benchStart(b)
	lease := win(b, driver, request("a", long))
	for b.Loop() {
		if err := lease.Renew(b.Context(), long); err != nil {
			b.Fatal(err)
		}
	}
}
