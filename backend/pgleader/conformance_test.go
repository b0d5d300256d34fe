package pgleader_test

import (
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

// store is the newest store that the suite opened: a schema, and a proxy for each client.
type store struct {
	server *testserver.Server

	mu      sync.Mutex
	db      *database
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.Postgres(t)
	s := &store{server: server}
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
	d := newDatabase(t, s.server)
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxies[i] = listen(t, s.server)
		drivers[i] = d.open(t, newPool(t, d.config(t, proxies[i].Addr())))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.proxies = d, proxies
	return drivers
}

// listen puts a proxy before a server.
func listen(t testing.TB, server *testserver.Server) *netfault.Proxy {
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
	d := s.db
	s.mu.Unlock()
	table := sqlleader.DefaultTable
	row := "(name, format, token, spent, owner, fence, since, until, renewals, metadata) " +
		"VALUES ($1, 1, '', '', '', 1, 1, 0, 0, '')"
	fence := "fence = -fence, metadata = '{'"
	if strings.Contains(key, "!") {
		table += "_records"
		row = "(name, format, version, value, until) VALUES ($1, 1, 'v', '', 0)"
		fence = "format = -1"
	}
	if how != backendtest.Deleted {
		// There must be a row to harm.
		_, _ = d.admin.Exec(t.Context(), "INSERT INTO "+table+" "+row, key)
	}
	switch how {
	case backendtest.Deleted:
		d.execute(t, "DELETE FROM "+table+" WHERE name = $1", key)
	case backendtest.Garbled:
		d.execute(t, "UPDATE "+table+" SET "+fence+" WHERE name = $1", key)
	case backendtest.NewerMajor:
		d.execute(t, "UPDATE "+table+" SET format = format + 1 WHERE name = $1", key)
	case backendtest.WrongType:
		t.Skip("skipped: the columns are typed")
	}
}
