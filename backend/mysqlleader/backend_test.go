package mysqlleader_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// patience is the watchdog of every wait in these tests.
	patience = 20 * time.Second
	// brief is a TTL that tests let end; long one that they do not outlive.
	brief = 50 * time.Millisecond
	long  = 10 * time.Minute

	connections = 8
)

// setting changes how a handle connects.
type setting func(*mysql.Config)

// at sends a handle's connections to another address, that of a proxy.
func at(addr string) setting { return func(c *mysql.Config) { c.Addr = addr } }

// in makes schema the default one.
func in(schema string) setting { return func(c *mysql.Config) { c.DBName = schema } }

// variable sets one of the session's variables.
func variable(name, value string) setting {
	return func(c *mysql.Config) {
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		c.Params[name] = value
	}
}

// connect returns a handle of the server that ends with the test.
func connect(t testing.TB, server *testserver.Server, settings ...setting) *sql.DB {
	t.Helper()
	return connectTo(t, server.URL(), settings...)
}

func connectTo(t testing.TB, serverURL string, settings ...setting) *sql.DB {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/")
	c.Passwd, _ = u.User.Password()
	c.Timeout, c.ReadTimeout = 5*time.Second, 5*time.Second
	c.Logger = &mysql.NopLogger{} // it complains of each of many faults
	for _, set := range settings {
		set(c)
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// open returns a backend on the handle that ends with the test, before the handle does.
func open(t testing.TB, db *sql.DB, opts *mysqlleader.Options) *mysqlleader.Backend {
	t.Helper()
	b := mysqlleader.New(db, opts)
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// migrated is open with tables.
func migrated(t testing.TB, db *sql.DB) *mysqlleader.Backend {
	t.Helper()
	b := open(t, db, nil)
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// start returns a backend in a new schema, and a handle in the same schema for what is done behind its back.
func start(t testing.TB, settings ...setting) (*mysqlleader.Backend, *sql.DB) {
	t.Helper()
	server := testserver.MariaDB(t)
	schema := newSchema(t, server)
	return migrated(t, connect(t, server, append([]setting{in(schema)}, settings...)...)), connect(t, server, in(schema))
}

// startOwned returns a backend on a server that the test may harm, and a handle for what is done behind its back.
func startOwned(t testing.TB, opts ...testserver.MariaDBOption) (*mysqlleader.Backend, *sql.DB, *testserver.Server) {
	t.Helper()
	server := ownServer(t, opts...)
	return migrated(t, connect(t, server)), connect(t, server), server
}

func ownServer(t testing.TB, opts ...testserver.MariaDBOption) *testserver.Server {
	t.Helper()
	server := testserver.MariaDB(t, opts...)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// newSchema makes an empty schema and returns its name.
func newSchema(t testing.TB, server *testserver.Server) string {
	t.Helper()
	name := "leader_" + strings.ToLower(rand.Text()[:12])
	admin := connect(t, server)
	execute(t, admin, "CREATE SCHEMA "+name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_, _ = admin.ExecContext(ctx, "DROP SCHEMA "+name) // the server may be down by now
	})
	return name
}

func execute(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// number is the one number that a query returns.
func number(t testing.TB, db *sql.DB, text string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), text, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// status is a counter of the whole server. It prepares nothing.
func status(t testing.TB, db *sql.DB, name string) int64 {
	t.Helper()
	return number(t, db, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = '"+name+"'")
}

func request(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: ttl}
}

func win(t testing.TB, b backend.Driver, req backend.Request) backend.Lease {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", req.Key, err)
	}
	return lease
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

func renew(t testing.TB, lease backend.Lease) {
	t.Helper()
	if err := lease.Renew(t.Context(), long); err != nil {
		t.Fatalf("Renew: %v", err)
	}
}

func release(t testing.TB, lease backend.Lease, keep time.Duration) {
	t.Helper()
	if err := lease.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release(%v): %v", keep, err)
	}
}

func lost(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrLost) {
		t.Errorf("%s: %v, want ErrLost", what, err)
	}
}

func kind(t testing.TB, what string, err error, want backend.Kind) {
	t.Helper()
	if err == nil || backend.KindOf(err) != want {
		t.Errorf("%s: %v (%v), want %v", what, err, backend.KindOf(err), want)
	}
}

// timedOut reports whether err says that a context's deadline has passed. While the driver connects, that may be the
// network's word for it, a moment before the context's own.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func TestNew_Check_ReportsABadTableAndANilHandle(t *testing.T) {
	b := mysqlleader.New(nil, &mysqlleader.Options{Table: "a b"})
	err := b.Check()
	if err == nil || !strings.Contains(err.Error(), `"a b"`) || !strings.Contains(err.Error(), "nil") {
		t.Errorf("Check() = %v, want both violations", err)
	}
	_, err = b.TryAcquire(t.Context(), request("a", long))
	kind(t, "TryAcquire", err, backend.Misconfigured)
	if name := b.Name(); name != "mysql" {
		t.Errorf("Name() = %q", name)
	}
}

func TestBackend_Close_LeavesTheHandleOpenAndKeepsNoStatement(t *testing.T) {
	b, db, server := startOwned(t)
	handle := connect(t, server)
	closing := mysqlleader.New(handle, nil)
	lease := win(t, closing, request("a", long))
	if n := status(t, db, "Prepared_stmt_count"); n == 0 {
		t.Error("nothing was prepared")
	}
	if err := closing.Close(); err != nil {
		t.Error(err)
	}
	if err := lease.Renew(t.Context(), long); err == nil {
		t.Error("Renew after Close succeeded")
	}
	if err := handle.PingContext(t.Context()); err != nil {
		t.Errorf("the handle was closed: %v", err)
	}
	if inspect(t, b, "a").Free() {
		t.Error("Close ended the lease")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "no statement is left at the server", func() bool { return status(t, db, "Prepared_stmt_count") == 0 })
}

func TestBackend_Table_IsTheOneOfTheOptions(t *testing.T) {
	_, db := start(t)
	b := open(t, db, &mysqlleader.Options{Table: "jobs_leases", CreateTable: true})
	win(t, b, request("a", long))
	if n := number(t, db, "SELECT COUNT(*) FROM jobs_leases"); n != 1 {
		t.Errorf("%d rows", n)
	}
	if n := number(t, db, "SELECT COUNT(*) FROM "+sqlleader.DefaultTable); n != 0 {
		t.Errorf("%d rows in the default table", n)
	}
}

func TestBackend_Statements_ArePreparedOncePerConnection(t *testing.T) {
	for name, opts := range map[string][]setting{"default": nil, "interpolateParams": {
		func(c *mysql.Config) { c.InterpolateParams = true },
	}} {
		t.Run(name, func(t *testing.T) {
			_, db, server := startOwned(t)
			one := connect(t, server, opts...)
			one.SetMaxOpenConns(1)
			b := open(t, one, nil)
			held := win(t, b, request("held", long))
			round := func() {
				refused(t, b, "held")
				renew(t, held)
				release(t, win(t, b, request("a", long)), 0)
			}
			round()
			names := []string{"Com_stmt_prepare", "Com_stmt_reprepare", "Com_stmt_close"}
			var before []int64
			for _, name := range names {
				before = append(before, status(t, db, name))
			}
			for range 50 {
				round()
			}
			for i, name := range names {
				if n := status(t, db, name) - before[i]; n != 0 {
					t.Errorf("%s grew by %d in 50 rounds", name, n)
				}
			}
		})
	}
}

func TestBackend_TryAcquire_WritesNothingWhereItLoses(t *testing.T) {
	const attempts = 1000
	b, db, _ := startOwned(t)
	win(t, b, request("a", long))
	refused(t, b, "a")
	before := status(t, db, "Innodb_lsn_current")
	for range attempts {
		refused(t, b, "a")
	}
	if grown := status(t, db, "Innodb_lsn_current") - before; grown > 4096 {
		t.Errorf("the redo log grew by %d bytes in %d losing attempts", grown, attempts)
	}
}
