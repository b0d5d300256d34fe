package pgleader_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// patience is the watchdog of every wait in these tests.
	patience = 20 * time.Second
	// long is a lease that does not end within a test, brief a time in which nothing is to happen.
	long  = time.Hour
	brief = 100 * time.Millisecond
)

// database is a server, and a schema of it for one test.
type database struct {
	server *testserver.Server
	schema string
	admin  *pgxpool.Pool // whose unqualified tables are in the schema
}

// newDatabase returns an empty schema on a server.
func newDatabase(t testing.TB, server *testserver.Server) *database {
	t.Helper()
	d := &database{server: server, schema: "leader_" + strings.ToLower(rand.Text()[:12])}
	d.admin = d.pool(t, named("admin"))
	d.execute(t, "CREATE SCHEMA "+d.schema)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_, _ = d.admin.Exec(ctx, "DROP SCHEMA "+d.schema+" CASCADE") // the server may be down by now
	})
	return d
}

// start returns a backend on a server of its own.
func start(t testing.TB, opts ...testserver.PostgresOption) (*pgleader.Backend, *database) {
	t.Helper()
	server := testserver.Postgres(t, opts...)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	d := newDatabase(t, server)
	return d.open(t, d.pool(t)), d
}

// config is that of a pool on the schema, at an address, named by an application name that no other test uses.
func (d *database) config(t testing.TB, addr string) *pgxpool.Config {
	t.Helper()
	u, err := url.Parse(d.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	parameters := u.Query()
	parameters.Set("search_path", d.schema)
	parameters.Set("application_name", d.schema)
	parameters.Set("pool_max_conns", "8")
	u.RawQuery = parameters.Encode()
	c, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pool returns a pool on the schema that ends with the test, changed by those functions.
func (d *database) pool(t testing.TB, change ...func(c *pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	c := d.config(t, d.server.Addr())
	for _, f := range change {
		f(c)
	}
	return newPool(t, c)
}

func newPool(t testing.TB, c *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(patience): // a test has failed and left a connection behind
		}
	})
	return pool
}

// most limits a pool to n connections.
func most(n int32) func(c *pgxpool.Config) { return func(c *pgxpool.Config) { c.MaxConns = n } }

// named gives the connections of a pool a name by which [database.sessions] counts them.
func named(name string) func(c *pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name }
}

// open returns a migrated backend on the pool that ends with the test, before the pool does.
func (d *database) open(t testing.TB, pool *pgxpool.Pool) *pgleader.Backend {
	t.Helper()
	b := pgleader.New(pool, nil)
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (d *database) execute(t testing.TB, text string, args ...any) {
	t.Helper()
	if _, err := d.admin.Exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// ask returns the one integer that a query answers.
func (d *database) ask(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := d.admin.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// sessions counts the connections of the schema's clients whose application name matches a pattern of LIKE.
func (d *database) sessions(t testing.TB, like string) int {
	t.Helper()
	return d.ask(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE $1", like)
}

// owned counts the connections that the backends of this test own for that purpose, "%" for any.
func (d *database) owned(t testing.TB, purpose string) int {
	t.Helper()
	return d.sessions(t, d.schema+" leader-"+purpose)
}

// pid is the process id of the server's end of one of them, 0 if there is none.
func (d *database) pid(t testing.TB, purpose string) int {
	t.Helper()
	return d.ask(t, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE application_name LIKE $1",
		d.schema+" leader-"+purpose)
}

// terminate ends those connections, and returns when they are gone.
func (d *database) terminate(t testing.TB, purpose string) {
	t.Helper()
	list, err := d.admin.Query(t.Context(), `SELECT pid FROM pg_stat_activity
WHERE application_name LIKE $1 AND pg_terminate_backend(pid)`, d.schema+" leader-"+purpose)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := pgx.CollectRows(list, pgx.RowTo[int32])
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) == 0 {
		t.Fatalf("no connection to terminate: %s", purpose)
	}
	eventually(t, "the connections are gone", func() bool {
		return d.ask(t, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)", pids) == 0
	})
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

// holder attempts on a held key and returns what the attempt learned.
func holder(t testing.TB, b backend.Driver, key string) backend.Holder {
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

func release(t testing.TB, lease backend.Lease, keep time.Duration) {
	t.Helper()
	if err := lease.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release(%v): %v", keep, err)
	}
}

// renew renews with a deadline that is far from the test's.
func renew(t testing.TB, lease backend.Lease, ttl time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	if err := lease.Renew(ctx, ttl); err != nil {
		t.Fatalf("Renew: %v", err)
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

func TestNew_Check_RefusesANilPoolAndABadTableName(t *testing.T) {
	b := pgleader.New(nil, &pgleader.Options{Table: "a b"})
	err := b.Check()
	if err == nil || !strings.Contains(err.Error(), `"a b"`) || !strings.Contains(err.Error(), "nil") {
		t.Errorf("Check: %v, want both violations", err)
	}
	b = pgleader.New(nil, nil)
	for name, call := range map[string]func() error{
		"Check":        b.Check,
		"TryAcquire":   func() error { _, err := b.TryAcquire(t.Context(), request("a", long)); return err },
		"AwaitRelease": func() error { return b.AwaitRelease(t.Context(), "a", "1") },
		"Watch": func() (last error) {
			for _, err := range b.Watch(t.Context(), "a") {
				last = err
			}
			return last
		},
	} {
		if err := call(); backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s with a nil pool: %v", name, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestNew_DoesNoIO(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := pgleader.New(pool, nil)
	if pool.Stat().NewConnsCount() != 0 {
		t.Error("New has opened a connection")
	}
	if l := b.Limits(); l.Blocking || l.MinTTL != 10*time.Millisecond || l.LookFirst || b.Name() != "postgres" {
		t.Errorf("%q with limits %+v", b.Name(), l)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestBackend_CreateTable_CreatesWhatIsMissing(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	pool := d.pool(t)
	without := pgleader.New(pool, nil)
	t.Cleanup(func() { _ = without.Close() })
	if _, err := without.TryAcquire(t.Context(), request("a", long)); backend.KindOf(err) != backend.Misconfigured ||
		!strings.Contains(err.Error(), "Migrate") {
		t.Errorf("without a table: %v", err)
	}
	b := pgleader.New(pool, &pgleader.Options{CreateTable: true, Table: d.schema + ".other"})
	t.Cleanup(func() { _ = b.Close() })
	lease := win(t, b, request("a", long))
	renew(t, lease, 2*long)
	if n := d.ask(t, "SELECT count(*) FROM other"); n != 1 {
		t.Errorf("%d rows", n)
	}
	if len(b.Schema()) != len(sqlleader.PostgreSQL().Schema) {
		t.Error("the schema is another")
	}
}
