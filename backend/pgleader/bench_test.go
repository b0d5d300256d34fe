package pgleader

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

// benchBackend returns a backend with its tables, and its pool.
func benchBackend(b *testing.B) (*Backend, *pgxpool.Pool) {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), testserver.Postgres(b).URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	driver := New(pool, nil)
	b.Cleanup(func() { _ = driver.Close() })
	if err := driver.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return driver, pool
}

func benchElector(b *testing.B, driver backend.Driver) *leader.Single {
	b.Helper()
	e, err := leader.New(driver, leader.WithNodeID("node-2"))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// text is a statement of the dialect on the default table.
func text(s sqlleader.Statement) string {
	return strings.NewReplacer("{table}", sqlleader.DefaultTable, "{channel}", sqlleader.Channel(sqlleader.DefaultTable),
		"{presence}", "4711").Replace(s.Text)
}

var takeText, releaseText = text(sqlleader.PostgreSQL().Take), text(sqlleader.PostgreSQL().Release)

const leaseMicros = int64(30_000_000)

// take acquires with the raw pool.
func take(ctx context.Context, pool *pgxpool.Pool, key, token string) (fence int64, won bool, err error) {
	var (
		name, holder, spent, owner, metadata           string
		format, since, remaining, ttl, noted, renewals int64
		foreign                                        bool
	)
	err = pool.QueryRow(ctx, takeText, key, token, "node-1", leaseMicros, "").Scan(&won, &name, &format, &holder, &spent,
		&owner, &fence, &since, &remaining, &foreign, &ttl, &noted, &renewals, &metadata)
	return fence, won, err
}

// BenchmarkRun compares a run of the engine, and a term of the driver, with the same two statements sent by the raw pool,
// and with the plain pair of an upsert and an update that ShedLock made known.
func BenchmarkRun(b *testing.B) {
	driver, pool := benchBackend(b)
	elector := benchElector(b, driver)
	_, err := pool.Exec(b.Context(), "CREATE TABLE shedlock (name text PRIMARY KEY, lock_until timestamptz, locked_by text)")
	if err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("naive", func(ctx context.Context) error {
		const lock = `INSERT INTO shedlock (name, lock_until, locked_by) VALUES ($1, now() + interval '30 s', $2)
ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_by = $2 WHERE shedlock.lock_until <= now()`
		if _, err := pool.Exec(ctx, lock, "naive", "node-1"); err != nil {
			return err
		}
		const unlock = "UPDATE shedlock SET lock_until = now() WHERE name = $1 AND locked_by = $2"
		_, err := pool.Exec(ctx, unlock, "naive", "node-1")
		return err
	})
	c.Add("floor", func(ctx context.Context) error {
		token := rand.Text()
		fence, won, err := take(ctx, pool, "floor", token)
		if err != nil || !won {
			return errors.Join(err, errors.New("not won"))
		}
		var ended int64
		return pool.QueryRow(ctx, releaseText, "floor", token, fence, int64(0)).Scan(&ended)
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
		lease, err := driver.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	c.Add("run", func(ctx context.Context) error {
		r, err := elector.RunIfLeader(ctx, "run", func(context.Context) error { return nil })
		if err == nil && !r.OK() {
			err = errors.New("not run")
		}
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "run", "floor")
	benchtest.Ratio(b, medians, "driver", "floor")
	benchtest.Ratio(b, medians, "run", "naive")
}

// BenchmarkSkip compares a run that finds another leading, and the attempt of the driver, with the same statement sent by
// the raw pool.
func BenchmarkSkip(b *testing.B) {
	driver, pool := benchBackend(b)
	elector := benchElector(b, driver)
	win := backend.Request{Key: "skip", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	if _, err := driver.TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("floor", func(ctx context.Context) error {
		_, won, err := take(ctx, pool, "skip", rand.Text())
		if won {
			return errors.New("won")
		}
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "skip", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
		if _, err := driver.TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.New("not refused")
		}
		return nil
	})
	c.Add("skip", func(ctx context.Context) error {
		r, err := elector.RunIfLeader(ctx, "skip", func(context.Context) error { return nil })
		if err == nil && r.Outcome != leader.Skipped {
			err = errors.New("not refused")
		}
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "skip", "floor")
	benchtest.Ratio(b, medians, "driver", "floor")
}

// BenchmarkHandOff times a release, its notification, and the waiter's acquisition; raw are the statements and the
// notification without the driver.
func BenchmarkHandOff(b *testing.B) {
	driver, pool := benchBackend(b)
	listening, err := pgx.ConnectConfig(b.Context(), pool.Config().ConnConfig)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listening.Close(context.WithoutCancel(b.Context())) })
	if _, err := listening.Exec(b.Context(), "LISTEN "+sqlleader.Channel(sqlleader.DefaultTable)); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	token := rand.Text()
	fence, _, err := take(b.Context(), pool, "raw", token)
	if err != nil {
		b.Fatal(err)
	}
	c.Add("raw", func(ctx context.Context) error {
		woken := make(chan error, 1)
		go func() {
			for {
				n, err := listening.WaitForNotification(ctx)
				if err != nil || strings.HasSuffix(n.Payload, " raw") {
					woken <- err
					return
				}
			}
		}()
		var ended int64
		err := pool.QueryRow(ctx, releaseText, "raw", token, fence, int64(0)).Scan(&ended)
		if err := errors.Join(err, <-woken); err != nil {
			return err
		}
		token = rand.Text()
		fence, _, err = take(ctx, pool, "raw", token)
		return err
	})
	acquire := func(ctx context.Context) (backend.Lease, error) {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
		return driver.TryAcquire(ctx, req)
	}
	lease, err := acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	c.Add("driver", func(ctx context.Context) error {
		woken := make(chan error, 1)
		seen := strconv.FormatUint(lease.Fence(), 10)
		go func() { woken <- driver.AwaitRelease(ctx, "driver", seen) }()
		err := lease.Release(ctx, 0)
		if err := errors.Join(err, <-woken); err != nil {
			return err
		}
		lease, err = acquire(ctx)
		return err
	})
	benchtest.Ratio(b, c.Run(b), "driver", "raw")
}
