package mysqlleader_test

import (
	"database/sql"
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

// store is the newest store that the suite opened: a schema on the one server, and a proxy for each client.
type store struct {
	server *testserver.Server
	admin  *sql.DB

	mu      sync.Mutex
	schema  string
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.MariaDB(t)
	s := &store{server: server, admin: connect(t, server)}
	c := backendtest.Config{
		Open: s.open, Fidelity: backendtest.Real, TTL: 500 * time.Millisecond,
		Partition: s.partition, Corrupt: s.corrupt,
	}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	schema := newSchema(t, s.server)
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxies[i] = proxyOf(t, s.server)
		drivers[i] = migrated(t, connect(t, s.server, in(schema), at(proxies[i].Addr())))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schema, s.proxies = schema, proxies
	return drivers
}

func proxyOf(t testing.TB, server *testserver.Server) *netfault.Proxy {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
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
	row := "(name, format, token, spent, owner, fence, since, until, renewals, metadata) " +
		"VALUES (?, 1, '', '', '', 1, 1, 0, 0, '')"
	garbage := "fence = -fence, metadata = '{'"
	if strings.Contains(key, "!") {
		table += "_records"
		row = "(name, format, version, value, until) VALUES (?, 1, 'v', '', 0)"
		garbage = "format = -1"
	}
	if how != backendtest.Deleted {
		execute(t, s.admin, "INSERT IGNORE INTO "+table+" "+row, key) // there must be a row to harm
	}
	switch how {
	case backendtest.Deleted:
		execute(t, s.admin, "DELETE FROM "+table+" WHERE name = ?", key)
	case backendtest.Garbled:
		execute(t, s.admin, "UPDATE "+table+" SET "+garbage+" WHERE name = ?", key)
	case backendtest.NewerMajor:
		execute(t, s.admin, "UPDATE "+table+" SET format = format + 1 WHERE name = ?", key)
	case backendtest.WrongType:
		t.Skip("the columns are typed")
	}
}
