package rig

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// Postgres is a server with everybody who works on it.
type Postgres struct {
	server *testserver.Server
	pool   *pgxpool.Pool // of all, so that nobody has another one
}

// NewPostgres starts a PostgreSQL, which waits for its disk; one that [testserver.PostgresURLEnv] names is taken as it is.
func NewPostgres(t testserver.TB) *Postgres {
	t.Helper()
	p := &Postgres{server: testserver.Postgres(t)}
	p.pool = p.dial(t, 4)
	if err := pgleader.New(p.pool, nil).Migrate(t.Context()); err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

func (p *Postgres) dial(t testserver.TB, connections int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(p.server.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (p *Postgres) driver(t testserver.TB, pool *pgxpool.Pool) *pgleader.Backend {
	t.Helper()
	d := pgleader.New(pool, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (p *Postgres) Run(t testserver.TB) Op { return run(newElector(t, p.driver(t, p.pool)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (p *Postgres) Skip(t testserver.TB) Op {
	hold(t, newElector(t, p.driver(t, p.pool)), "skip")
	return skip(newElector(t, p.driver(t, p.pool)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a pool of its own.
func (p *Postgres) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, p.driver(t, p.dial(t, 4)), p.driver(t, p.dial(t, 4)), 0).pass
}

// HoldAndCount lets one elector renew n leases for the time d, on a pool of two connections, and returns also how many
// connections it had meanwhile.
func (p *Postgres) HoldAndCount(t testserver.TB, n int, d time.Duration) (Held, []float64, error) {
	t.Helper()
	own := p.dial(t, 2)
	p.pool.Reset() // the others are gone, up to the one that counts
	var connections []float64
	counting, cancel := context.WithCancel(t.Context())
	var counter sync.WaitGroup
	counter.Go(func() {
		for ctx := counting; ctx.Err() == nil; {
			if count, err := p.others(ctx); err == nil {
				connections = append(connections, count)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	held, err := holdMany(t, p.driver(t, own), n, d)
	cancel()
	counter.Wait()
	return held, connections, err
}

// others counts the connections of the server that are not of the pool of all.
func (p *Postgres) others(ctx context.Context) (n float64, err error) {
	err = p.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n)
	return n, err
}

// Floor returns the two statements of the driver for a RunIfLeader, on the raw pool.
func (p *Postgres) Floor(t testserver.TB) Op {
	term := p.record(t, "floor")
	return func(ctx context.Context) error {
		token := rand.Text()
		fence, err := p.acquire(ctx, &term, token)
		return errors.Join(err, p.release(ctx, &term, token, fence))
	}
}

// SkipFloor returns the statement of the driver for an acquisition, while another holds the key, on the raw pool.
func (p *Postgres) SkipFloor(t testserver.TB) Op {
	term := p.record(t, "skip floor")
	hold(t, newElector(t, p.driver(t, p.pool)), "skip floor")
	return func(ctx context.Context) error {
		var a answer
		return a.lost(rawPool{p.pool}.query(ctx, term.acquire.text, term.acquire.with(rand.Text(), 0), a.scan))
	}
}

func (p *Postgres) record(t testserver.TB, key string) sqlTerm {
	t.Helper()
	return recordTerm(t, rawPool{p.pool}, sqlleader.PostgreSQL(), key)
}

func (p *Postgres) acquire(ctx context.Context, term *sqlTerm, token string) (fence int64, err error) {
	var a answer
	err = a.won(rawPool{p.pool}.query(ctx, term.acquire.text, term.acquire.with(token, 0), a.scan))
	return a.fence, err
}

func (p *Postgres) release(ctx context.Context, term *sqlTerm, token string, fence int64) error {
	var ended int64
	err := p.pool.QueryRow(ctx, term.release.text, term.release.with(token, fence)...).Scan(&ended)
	if err == nil && ended == 0 {
		err = errRefused
	}
	return err
}

// RawHandoff returns the hand-off by raw pools and the driver's own statements: one releases, which notifies; another
// receives the notification and acquires. The time ends with the answer.
func (p *Postgres) RawHandoff(t testserver.TB) contest.Way {
	t.Helper()
	const key = "raw hand-off"
	term := p.record(t, key)
	from, to := &Postgres{pool: p.dial(t, 4)}, &Postgres{pool: p.dial(t, 4)}
	listener, err := to.pool.Acquire(t.Context())
	if err == nil {
		t.Cleanup(listener.Release)
		_, err = listener.Exec(t.Context(), "LISTEN "+pgx.Identifier{sqlleader.Channel(sqlleader.DefaultTable)}.Sanitize())
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	told := func(ctx context.Context) error {
		for {
			n, err := listener.Conn().WaitForNotification(ctx)
			if err != nil || strings.HasSuffix(n.Payload, " "+key) {
				return err
			}
		}
	}
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		token, next := rand.Text(), rand.Text()
		fence, err := from.acquire(ctx, &term, token)
		if err != nil {
			return 0, err
		}
		took, err := pass(func() (err error) {
			if err = told(ctx); err == nil {
				fence, err = to.acquire(ctx, &term, next)
			}
			return err
		}, func() error { return from.release(ctx, &term, token, fence) })
		if err != nil {
			return 0, err
		}
		return took, errors.Join(to.release(ctx, &term, next, fence), told(ctx))
	}
}

// Naive returns an upsert and an update, the least that keeps a row per name. They give no fence, and a losing attempt
// would write.
func (p *Postgres) Naive(t testserver.TB) Op {
	p.create(t, "CREATE TABLE IF NOT EXISTS naive (name text PRIMARY KEY, token text NOT NULL, until timestamptz NOT NULL)")
	return func(ctx context.Context) error {
		token := rand.Text()
		return errors.Join(
			p.one(ctx, `INSERT INTO naive AS n VALUES ($1, $2, now() + $3::bigint * interval '1 microsecond')
				ON CONFLICT (name) DO UPDATE SET token = excluded.token, until = excluded.until WHERE n.until <= now()`,
				"run", token, lease.Microseconds()),
			p.one(ctx, "UPDATE naive SET until = now() WHERE name = $1 AND token = $2", "run", token))
	}
}

// ShedLock returns the statements that ShedLock sends with the time of the database: an insert that fails for a known
// name, or the update, and the update that unlocks. They give no fence.
func (p *Postgres) ShedLock(t testserver.TB) Op {
	p.create(t, `CREATE TABLE IF NOT EXISTS shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
		locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)`)
	const now = "timezone('utc', CURRENT_TIMESTAMP)"
	return func(ctx context.Context) error {
		return errors.Join(
			p.one(ctx, "INSERT INTO shedlock VALUES ($1, "+now+" + $2::bigint * interval '1 microsecond', "+now+`, $3)
				ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at,
				locked_by = excluded.locked_by WHERE shedlock.lock_until <= `+now,
				"run", lease.Microseconds(), owner),
			p.one(ctx, "UPDATE shedlock SET lock_until = "+now+" WHERE name = $1 AND locked_by = $2", "run", owner))
	}
}

// Advisory returns an advisory lock and its unlock on a connection that is taken from the pool meanwhile. It writes
// nothing, has no fence and no end, and lasts as long as the connection.
func (p *Postgres) Advisory() Op {
	return func(ctx context.Context) error {
		conn, err := p.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var locked, unlocked bool
		err = errors.Join(conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", 1).Scan(&locked),
			conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", 1).Scan(&unlocked))
		if err == nil && (!locked || !unlocked) {
			err = errRefused
		}
		return err
	}
}

func (p *Postgres) create(t testserver.TB, ddl string) {
	t.Helper()
	if _, err := p.pool.Exec(t.Context(), ddl); err != nil {
		t.Fatalf("%v", err)
	}
}

// one runs a statement that has to change one row.
func (p *Postgres) one(ctx context.Context, text string, args ...any) error {
	tag, err := p.pool.Exec(ctx, text, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = errRefused
	}
	return err
}

// rawPool is the least that runs statements on a pool.
type rawPool struct{ *pgxpool.Pool }

func (p rawPool) Exec(ctx context.Context, c *sqlleader.Command, args []any) (sql.Result, error) {
	tag, err := p.Pool.Exec(ctx, c.Text, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

func (p rawPool) Query(ctx context.Context, c *sqlleader.Command, args []any, scan func(sqlleader.Row) error) error {
	return p.query(ctx, c.Text, args, scan)
}

func (p rawPool) query(ctx context.Context, text string, args []any, scan func(sqlleader.Row) error) error {
	rows, err := p.Pool.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Close leaves the pool open.
func (p rawPool) Close() error { return nil }
