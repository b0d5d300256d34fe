package sqliteleader_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/backend/sqlleader"
)

// lasting is a lease that does not end within a test.
const lasting = time.Hour

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "leader.db")
}

func open(t testing.TB, path string) *sqliteleader.Backend {
	t.Helper()
	return openWith(t, path, nil)
}

func openWith(t testing.TB, path string, opts *sqliteleader.Options) *sqliteleader.Backend {
	t.Helper()
	b, err := sqliteleader.Open(path, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// handle opens a stranger's handle on the file.
func handle(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(2000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func execute(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

var tokens atomic.Int64

// request is an acquisition with a token of its own.
func request(key string, ttl time.Duration) backend.Request {
	return backend.Request{
		Key: key, Token: fmt.Sprintf("TOKEN%021d", tokens.Add(1)), Owner: "node-a", TTL: ttl,
		Metadata: map[string]string{"zone": "ä"},
	}
}

func acquire(t testing.TB, d backend.Driver, req backend.Request) backend.Lease {
	t.Helper()
	l, err := d.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire %q: %v", req.Key, err)
	}
	return l
}

func wantHeld(t testing.TB, d backend.Driver, key string) backend.Holder {
	t.Helper()
	_, err := d.TryAcquire(t.Context(), request(key, lasting))
	held, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("TryAcquire %q = %v, want held", key, err)
	}
	return held.Holder
}

func inspect(t testing.TB, d backend.Driver, key string) backend.Holder {
	t.Helper()
	h, err := d.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect %q: %v", key, err)
	}
	return h
}

func release(t testing.TB, l backend.Lease, keep time.Duration) {
	t.Helper()
	if err := l.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// eventually fails the test unless ok becomes true in time.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// machine is one of several that share a file: its clock has another name.
type machine struct {
	name  string
	ahead time.Duration
}

// openOn opens the file with the clock of m.
func openOn(t testing.TB, path string, m *machine) *sqlleader.Backend {
	t.Helper()
	d := sqlleader.SQLite()
	local := d.Clock
	d.Clock = func() sqlleader.Reading {
		r := local()
		return sqlleader.Reading{Clock: m.name, Now: r.Now + m.ahead.Microseconds(), Wall: r.Wall}
	}
	b := sqlleader.New(handle(t, path), d, &sqlleader.Options{CreateTable: true})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

func bounded(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
