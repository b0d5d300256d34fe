package rig

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the database driver

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// SQLite is a folder with a file for each of those who work on one.
type SQLite struct{ dir string }

// NewSQLite makes the folder.
func NewSQLite(t testserver.TB) *SQLite {
	t.Helper()
	return &SQLite{t.TempDir()}
}

func (s *SQLite) driver(t testserver.TB, file string) *sqliteleader.Backend {
	t.Helper()
	d, err := sqliteleader.Open(filepath.Join(s.dir, file), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (s *SQLite) Run(t testserver.TB) Op { return run(newElector(t, s.driver(t, "run.db")), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (s *SQLite) Skip(t testserver.TB) Op {
	hold(t, newElector(t, s.driver(t, "skip.db")), "skip")
	return skip(newElector(t, s.driver(t, "skip.db")), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a handle of its own. A waiter looks every 20 ms, so the
// time that it has waited before the release is spread over as much.
func (s *SQLite) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, s.driver(t, "hand-off.db"), s.driver(t, "hand-off.db"), 20*time.Millisecond).pass
}

// Floor returns the two writes of the driver for a RunIfLeader, prepared on a handle with the driver's settings.
func (s *SQLite) Floor(t testserver.TB) Op { return s.newRows(t, "floor.db").term }

// Statements returns all that the driver sends for a RunIfLeader: it reads before it writes.
func (s *SQLite) Statements(t testserver.TB) Op {
	r := s.newRows(t, "statements.db")
	return func(ctx context.Context) error {
		if err := r.look(ctx); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return r.term(ctx)
	}
}

// SkipFloor returns the read by which the driver finds a key held, prepared on a handle with the driver's settings.
func (s *SQLite) SkipFloor(t testserver.TB) Op {
	t.Helper()
	r := s.newRows(t, "skip-floor.db")
	if err := r.take(t.Context()); err != nil {
		t.Fatalf("%v", err)
	}
	return r.look
}

// rowKey is the key of the rows.
const rowKey = "floor"

// rows are the leases of one key, made by the driver's statements without the driver.
type rows struct {
	dialect              sqlleader.Dialect
	read, write, release *sql.Stmt
	values               map[sqlleader.Arg]any
	fence                int64
}

func (s *SQLite) newRows(t testserver.TB, file string) *rows {
	t.Helper()
	settings := url.Values{"_pragma": {"busy_timeout(250)", "synchronous(NORMAL)", "journal_mode(WAL)"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, file)+"?"+settings.Encode())
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	r := &rows{dialect: sqlleader.SQLite()}
	r.values = map[sqlleader.Arg]any{
		sqlleader.Key: rowKey, sqlleader.Owner: owner, sqlleader.Metadata: "", sqlleader.SeenToken: "",
		sqlleader.SeenRenewals: int64(1), // a release counts as one
	}
	if err := sqlleader.New(db, r.dialect, nil).Migrate(t.Context()); err != nil {
		t.Fatalf("%v", err)
	}
	prepare := func(statement sqlleader.Statement) *sql.Stmt {
		text := strings.ReplaceAll(statement.Text, "{table}", sqlleader.DefaultTable)
		stmt, err := db.PrepareContext(t.Context(), text)
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { _ = stmt.Close() })
		return stmt
	}
	r.read, r.write, r.release = prepare(r.dialect.Read), prepare(r.dialect.Acquire), prepare(r.dialect.Release)
	return r
}

func (r *rows) term(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	return r.exec(ctx, r.release, r.dialect.Release.Args, 0)
}

func (r *rows) take(ctx context.Context) error {
	r.values[sqlleader.Token] = rand.Text()
	r.values[sqlleader.SeenFence] = r.fence
	r.fence++
	r.values[sqlleader.Fence] = r.fence
	r.values[sqlleader.From], r.values[sqlleader.To] = "", "" // it is no group
	return r.exec(ctx, r.write, r.dialect.Acquire.Args, lease)
}

func (r *rows) exec(ctx context.Context, stmt *sql.Stmt, args []sqlleader.Arg, ttl time.Duration) error {
	result, err := stmt.ExecContext(ctx, r.list(args, ttl)...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != 1 {
		err = errors.New("the row is not as it was left")
	}
	return err
}

func (r *rows) look(ctx context.Context) error {
	var name string
	var text [4]string
	var number [8]int64
	r.values[sqlleader.From], r.values[sqlleader.To] = rowKey, rowKey+" "
	return r.read.QueryRowContext(ctx, r.list(r.dialect.Read.Args, 0)...).Scan(&name, &number[0],
		&text[0], &text[1], &text[2], &number[1], &number[2], &number[3], &number[4], &number[5], &number[6], &number[7],
		&text[3])
}

func (r *rows) list(args []sqlleader.Arg, ttl time.Duration) []any {
	at := r.dialect.Clock()
	r.values[sqlleader.Clock], r.values[sqlleader.Now], r.values[sqlleader.Wall] = at.Clock, at.Now, at.Wall
	r.values[sqlleader.TTL] = ttl.Microseconds()
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = r.values[a]
	}
	return list
}
