package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// patience is the watchdog of everything that is waited for.
const patience = 20 * time.Second

// database is a server under test, and how it is talked to through one of its drivers.
type database struct {
	server  *testserver.Server
	admin   *sql.DB
	driver  string // its name in database/sql
	dialect sqlleader.Dialect

	// connect opens a handle whose unqualified tables are in schema, with the server at addr.
	connect func(t testing.TB, addr, schema string) *sql.DB
	// placeholder is what stands for the one parameter of the statements below.
	placeholder string
}

// newSchema makes an empty schema and returns its name.
func (d *database) newSchema(t testing.TB) string {
	t.Helper()
	name := "leader_" + strings.ToLower(rand.Text()[:12])
	execute(t, d.admin, "CREATE SCHEMA "+name)
	t.Cleanup(func() {
		statement := "DROP SCHEMA " + name
		if d.dialect.Name == "postgres" {
			statement += " CASCADE"
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_, _ = d.admin.ExecContext(ctx, statement) // the server may be down by now
	})
	return name
}

// open returns a migrated backend on a schema, directly at the server.
func (d *database) open(t testing.TB, schema string) (*sqlleader.Backend, *sql.DB) {
	t.Helper()
	return d.openAt(t, d.server.Addr(), schema)
}

func (d *database) openAt(t testing.TB, addr, schema string) (*sqlleader.Backend, *sql.DB) {
	t.Helper()
	db := d.connect(t, addr, schema)
	b := sqlleader.New(db, d.dialect, nil)
	t.Cleanup(func() { _ = b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, db
}

func execute(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// urlAt replaces the host of a server's URL.
func urlAt(t testing.TB, server *testserver.Server, addr string) *url.URL {
	t.Helper()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u
}

// store is the newest store that the suite opened: a schema, and a proxy for each client.
type store struct {
	*database

	mu      sync.Mutex
	schema  string
	proxies []*netfault.Proxy
}

// conformance runs the whole suite.
func (d *database) conformance(t *testing.T) {
	t.Helper()
	s := &store{database: d}
	c := backendtest.Config{
		Open: s.openStore, Fidelity: backendtest.Real, TTL: 500 * time.Millisecond,
		Partition: s.partition, Corrupt: s.corrupt,
	}
	if d.server.Owned() {
		c.Restart = func(t testing.TB) { d.server.Restart(t) }
	}
	backendtest.Run(t, c)
}

func (s *store) openStore(t testing.TB, n int) []backend.Driver {
	t.Helper()
	schema := s.newSchema(t)
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxy, err := netfault.Listen(t.Context(), s.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		proxies[i] = proxy
		drivers[i], _ = s.openAt(t, proxy.Addr(), schema)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schema, s.proxies = schema, proxies
	return drivers
}

func (s *store) partition(_ testing.TB, i int) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies[i].Freeze()
	return s.proxies[i].Thaw
}

func (s *store) corrupt(t testing.TB, key string, how backendtest.Damage) {
	t.Helper()
	s.mu.Lock()
	table := s.schema + "." + sqlleader.DefaultTable
	s.mu.Unlock()
	row := "(name, format, token, spent, owner, fence, since, until, renewals, metadata) VALUES (" + s.placeholder +
		", 1, '', '', '', 1, 1, 0, 0, '')"
	fence := "fence = -fence, metadata = '{'"
	if strings.Contains(key, "!") {
		table += "_records"
		row = "(name, format, version, value, until) VALUES (" + s.placeholder + ", 1, 'v', '', 0)"
		fence = "format = -1"
	}
	if how != backendtest.Deleted {
		// There must be a row to harm.
		_, _ = s.admin.ExecContext(t.Context(), "INSERT INTO "+table+" "+row, key)
	}
	where := " WHERE name = " + s.placeholder
	switch how {
	case backendtest.Deleted:
		execute(t, s.admin, "DELETE FROM "+table+where, key)
	case backendtest.Garbled:
		execute(t, s.admin, "UPDATE "+table+" SET "+fence+where, key)
	case backendtest.NewerMajor:
		execute(t, s.admin, "UPDATE "+table+" SET format = format + 1"+where, key)
	case backendtest.WrongType:
		t.Skip("skipped: the columns are typed")
	}
}
