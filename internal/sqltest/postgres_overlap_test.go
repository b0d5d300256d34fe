package sqltest

import (
	"net/url"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
)

func TestPostgreSQL_Overlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return ownPostgres(t).Addr() },
		Dial:     dialPostgres,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: []backendtest.Fault{
			{
				Name:   "FrozenConnection",
				Effect: backendtest.LosesAll,
				Stage:  proxied((*netfault.Proxy).Freeze),
			},
			{
				Name:   "SessionsTerminated",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Stage: onServer(func(t testing.TB, server *testserver.Server) func() {
					terminate(t, server)
					return nil
				}),
			},
			{
				Name:   "ServerKilledAndRestarted",
				Effect: backendtest.LosesSome,
				Stage: onServer(func(t testing.TB, server *testserver.Server) func() {
					server.Restart(t)
					return nil
				}),
			},
			{
				Name:   "ServerAway",
				Effect: backendtest.LosesAll,
				Lasts:  overlapLease * 3 / 2,
				Within: 5 * time.Second,
				Stage: onServer(func(t testing.TB, server *testserver.Server) func() {
					server.Kill9(t)
					return func() { server.Restart(t) }
				}),
			},
			{
				Name:   "ServerStopped",
				Effect: backendtest.LosesAll,
				Lasts:  overlapLease * 3 / 2,
				Within: 5 * time.Second,
				Stage: onServer(func(t testing.TB, server *testserver.Server) func() {
					server.Stop(t)
					return func() { server.Cont(t) }
				}),
			},
		},
	})
}

func TestPostgreSQL_GroupOracle(t *testing.T) {
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string { return ownPostgres(t).Addr() },
		Dial:  dialPostgres,
		TCP:   true,
		Phase: 4 * time.Second,
	})
}

// ownPostgres starts a server that the test may harm.
func ownPostgres(t testing.TB) *testserver.Server {
	t.Helper()
	server := startPostgres(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	if want := postgresURL(server.Addr()); server.URL() != want {
		t.Fatalf("the server is %s, not %s: its clients in other processes know nothing but the address", server.URL(), want)
	}
	return server
}

// postgresURL is that of a server that was started here.
func postgresURL(addr string) string {
	return "postgres://leader:secret@" + addr + "/postgres?sslmode=disable"
}

func dialPostgres(t testing.TB, addr string) backend.Driver {
	t.Helper()
	u, err := url.Parse(postgresURL(addr))
	if err != nil {
		t.Fatal(err)
	}
	dialect := sqlleader.PostgreSQL()
	dialect.Blocking = false
	b := sqlleader.New(openPool(t, "pgx", u), dialect, &sqlleader.Options{CreateTable: true})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// proxied puts a fault on the holder's connections.
func proxied(do func(p *netfault.Proxy)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownPostgres(t)
		proxy, err := netfault.Listen(t.Context(), server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		return backendtest.Stage{
			Holder:    proxy.Addr(),
			Contender: server.Addr(),
			Do: func(testing.TB) func() {
				do(proxy)
				return proxy.Mend
			},
		}
	}
}

// onServer puts a fault on the server; do returns what heals it, or nil.
func onServer(do func(t testing.TB, server *testserver.Server) func()) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownPostgres(t)
		return backendtest.Stage{
			Holder:    server.Addr(),
			Contender: server.Addr(),
			Do: func(t testing.TB) func() {
				t.Helper()
				return do(t, server)
			},
		}
	}
}

// terminate ends every session but the one that does it.
func terminate(t testing.TB, server *testserver.Server) {
	t.Helper()
	admin := openPool(t, "pgx", urlAt(t, server, server.Addr()))
	defer admin.Close()
	ended := queryOne[int](t, admin, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	if ended == 0 {
		t.Error("there was no session to end")
	}
}
