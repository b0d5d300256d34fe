package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// long is a lease that does not end within a test.
const long = 5 * time.Minute

func request(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: ttl}
}

func win(t testing.TB, b backend.Driver, req backend.Request) backend.Lease {
	t.Helper()
	l, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", req.Key, err)
	}
	return l
}

// refused attempts on a held key and returns what the attempt learned.
func refused(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	_, err := b.TryAcquire(t.Context(), request(key, long))
	held, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("TryAcquire(%q): %v, want a HeldError", key, err)
	}
	return held.Holder
}

func inspect(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect(%q): %v", key, err)
	}
	return h
}

func wantKind(t testing.TB, what string, err error, want backend.Kind) {
	t.Helper()
	if err == nil || backend.KindOf(err) != want {
		t.Errorf("%s: kind %v, want %v: %v", what, backend.KindOf(err), want, err)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

// receive waits for a value from c.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("still not so after %v: %s", patience, what)
		panic("unreachable")
	}
}

// queryOne returns the one value of a query.
func queryOne[T any](t testing.TB, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// elector is one over d that keeps quiet.
func elector(t testing.TB, d backend.Driver, opts ...leader.Option) *leader.Single {
	t.Helper()
	e, err := leader.New(d, append([]leader.Option{leader.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// lead acquires a lease that is released at the end of the test.
func lead(t testing.TB, e leader.Elector, name string) *leader.Lease {
	t.Helper()
	l, err := e.Acquire(t.Context(), name)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", name, err)
	}
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) }) // it may be lost by then
	return l
}

// lost waits until l is over, and returns why.
func lost(t testing.TB, l *leader.Lease) error {
	t.Helper()
	receive(t, "the lease is lost", l.Context().Done())
	err := context.Cause(l.Context())
	if !errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("the context of the lease ended with %v", err)
	}
	return err
}

// behind returns a migrated backend on a schema whose connections go through a proxy.
func (d *database) behind(t testing.TB, schema string) (*sqlleader.Backend, *sql.DB, *netfault.Proxy) {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), d.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b, db := d.openAt(t, proxy.Addr(), schema)
	return b, db, proxy
}

// forEachPostgres runs a test with each driver, on a server of its own.
func forEachPostgres(t *testing.T, test func(t *testing.T, d *database), opts ...testserver.PostgresOption) {
	t.Helper()
	for _, driver := range postgresDrivers {
		t.Run(driver, func(t *testing.T) { test(t, postgres(t, driver, opts...)) })
	}
}

// asideForEachPostgres is forEachPostgres for a test that mostly waits: the drivers run beside each other.
func asideForEachPostgres(t *testing.T, test func(t *testing.T, d *database)) {
	t.Helper()
	for _, driver := range postgresDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, postgres(t, driver))
		})
	}
}

// withSettings opens a handle whose sessions have settings, beside the table's schema.
func (d *database) withSettings(t testing.TB, schema string, settings map[string]string) *sql.DB {
	t.Helper()
	u := urlAt(t, d.server, d.server.Addr())
	parameters := u.Query()
	parameters.Set("search_path", schema)
	for name, value := range settings {
		parameters.Set(name, value)
	}
	u.RawQuery = parameters.Encode()
	return openPool(t, d.driver, u)
}

// as opens a handle of another user.
func (d *database) as(t testing.TB, schema, user, password string) *sql.DB {
	t.Helper()
	u := urlAt(t, d.server, d.server.Addr())
	u.User = url.UserPassword(user, password)
	u.RawQuery += "&search_path=" + schema
	return openPool(t, d.driver, u)
}

// on returns a backend on a handle that ends with the test.
func (d *database) on(t testing.TB, db *sql.DB, opts *sqlleader.Options) *sqlleader.Backend {
	t.Helper()
	b := sqlleader.New(db, d.dialect, opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// restart restarts the server, and closes the connections that ended by that.
func (d *database) restart(t testing.TB, handles ...*sql.DB) {
	t.Helper()
	d.server.Restart(t)
	for _, db := range append(handles, d.admin) {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(8)
	}
}
