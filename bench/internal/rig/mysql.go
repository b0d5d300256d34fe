package rig

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// MySQL is a MariaDB, or the server that is named, with everybody who works on it.
type MySQL struct{ db *sql.DB }

// NewMySQL starts a MariaDB that waits for no disk, whose time would hide that of everything else.
func NewMySQL(t testserver.TB) *MySQL {
	t.Helper()
	var opts []testserver.MariaDBOption
	if os.Getenv(testserver.MySQLURLEnv) == "" {
		opts = append(opts, testserver.MariaDBConfig("innodb_flush_log_at_trx_commit=0"))
	}
	u, err := url.Parse(testserver.MariaDB(t, opts...).URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, u.Path[1:]
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	m := &MySQL{sql.OpenDB(connector)}
	t.Cleanup(func() { _ = m.db.Close() })
	m.db.SetMaxOpenConns(4)
	m.db.SetMaxIdleConns(4)
	if err := mysqlleader.New(m.db, nil).Migrate(t.Context()); err != nil {
		t.Fatalf("%v", err)
	}
	return m
}

func (m *MySQL) driver(t testserver.TB) *mysqlleader.Backend {
	t.Helper()
	d := mysqlleader.New(m.db, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (m *MySQL) Run(t testserver.TB) Op { return run(newElector(t, m.driver(t)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (m *MySQL) Skip(t testserver.TB) Op {
	hold(t, newElector(t, m.driver(t)), "skip")
	return skip(newElector(t, m.driver(t)), "skip", leader.Contended)
}

// Floor returns the two statements of the driver for a RunIfLeader, prepared on the raw handle.
func (m *MySQL) Floor(t testserver.TB) Op {
	term := m.record(t, "floor")
	take, release := m.prepare(t, term.acquire.text), m.prepare(t, term.release.text)
	return func(ctx context.Context) error {
		var a answer
		token := rand.Text()
		err := a.won(a.scan(take.QueryRowContext(ctx, term.acquire.with(token, 0)...)))
		if err != nil {
			return err
		}
		return changed(release.ExecContext(ctx, term.release.with(token, a.fence)...))
	}
}

// SkipFloor returns the statement of the driver for an acquisition, while another holds the key, prepared on the raw
// handle.
func (m *MySQL) SkipFloor(t testserver.TB) Op {
	term := m.record(t, "skip floor")
	take := m.prepare(t, term.acquire.text)
	hold(t, newElector(t, m.driver(t)), "skip floor")
	return func(ctx context.Context) error {
		var a answer
		return a.lost(a.scan(take.QueryRowContext(ctx, term.acquire.with(rand.Text(), 0)...)))
	}
}

func (m *MySQL) record(t testserver.TB, key string) sqlTerm {
	t.Helper()
	return recordTerm(t, rawDB{m.db}, sqlleader.MySQL(), key)
}

// Naive returns an upsert and an update, the least that keeps a row per name. They give no fence.
func (m *MySQL) Naive(t testserver.TB) Op {
	_, err := m.db.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS naive
		(name varbinary(255) PRIMARY KEY, token varbinary(64) NOT NULL, until datetime(6) NOT NULL)`)
	if err != nil {
		t.Fatalf("%v", err)
	}
	take := m.prepare(t, `INSERT INTO naive VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
		ON DUPLICATE KEY UPDATE token = IF(until <= UTC_TIMESTAMP(6), VALUES(token), token),
		until = IF(token = VALUES(token), VALUES(until), until)`)
	release := m.prepare(t, "UPDATE naive SET until = UTC_TIMESTAMP(6) WHERE name = ? AND token = ?")
	return func(ctx context.Context) error {
		token := rand.Text()
		return errors.Join(changed(take.ExecContext(ctx, "run", token, lease.Microseconds())),
			changed(release.ExecContext(ctx, "run", token)))
	}
}

// GetLock returns GET_LOCK and RELEASE_LOCK on a connection that is taken from the pool meanwhile. It writes nothing, has
// no fence and no end, and lasts as long as the connection.
func (m *MySQL) GetLock() Op {
	return func(ctx context.Context) error {
		conn, err := m.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		var locked, unlocked sql.NullBool
		err = errors.Join(conn.QueryRowContext(ctx, "SELECT GET_LOCK('run', 0)").Scan(&locked),
			conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK('run')").Scan(&unlocked))
		if err == nil && (!locked.Bool || !unlocked.Bool) {
			err = errRefused
		}
		return err
	}
}

func (m *MySQL) prepare(t testserver.TB, text string) *sql.Stmt {
	t.Helper()
	stmt, err := m.db.PrepareContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = stmt.Close() })
	return stmt
}

// changed is an error unless a row was changed.
func changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = errRefused
	}
	return err
}

// rawDB is the least that runs statements on a handle.
type rawDB struct{ *sql.DB }

func (db rawDB) Exec(ctx context.Context, c *sqlleader.Command, args []any) (sql.Result, error) {
	return db.ExecContext(ctx, c.Text, args...)
}

func (db rawDB) Query(ctx context.Context, c *sqlleader.Command, args []any, scan func(sqlleader.Row) error) error {
	rows, err := db.QueryContext(ctx, c.Text, args...)
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

// Close leaves the handle open.
func (db rawDB) Close() error { return nil }
