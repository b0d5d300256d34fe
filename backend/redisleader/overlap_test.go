package redisleader_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
)

func TestOverlap(t *testing.T) {
	logging.Disable() // the client complains of each of many faults
	t.Cleanup(logging.Enable)
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start: func(t testing.TB) string { return ownServer(t).Addr() },
		Dial: func(t testing.TB, addr string) backend.Driver {
			t.Helper()
			return open(t, connectTo(t, addr, ""), nil)
		},
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: []backendtest.Fault{
			{
				Name:   "FrozenConnection",
				Effect: backendtest.LosesAll,
				Stage:  proxied((*netfault.Proxy).Freeze),
			},
			{
				Name:   "SilentConnection",
				Effect: backendtest.LosesAll,
				Stage:  proxied((*netfault.Proxy).Drop),
			},
			{
				Name:   "CutConnection",
				Effect: backendtest.LosesAll,
				Stage:  proxied((*netfault.Proxy).Cut),
			},
			{
				Name:   "ConnectionFrozenBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  proxied((*netfault.Proxy).Freeze),
			},
			{
				Name:   "ConnectionCutBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  proxied((*netfault.Proxy).Cut),
			},
			{
				Name:   "ConnectionFrozenUntilSomeAreLost",
				Effect: backendtest.LosesSome,
				Lasts:  overlapLease * 3 / 4,
				Stage:  proxied((*netfault.Proxy).Freeze),
			},
			{
				Name:   "ServerKilledAndRestarted",
				Effect: backendtest.LosesSome,
				Stage:  killed(true),
			},
			{
				Name:   "ServerAwayForHalfALease",
				Effect: backendtest.LosesSome,
				Lasts:  overlapLease / 2,
				Stage:  killed(false),
			},
			{
				Name:   "ServerAway",
				Effect: backendtest.LosesAll,
				Lasts:  overlapLease * 3 / 2,
				Within: 5 * time.Second, // the client itself tries to connect once a second
				Stage:  killed(false),
			},
		},
	})
}

// ownServer starts a server that the test may harm.
func ownServer(t testing.TB) *testserver.Server {
	t.Helper()
	server := testserver.Redis(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// proxied puts a fault on the holder's connections.
func proxied(do func(p *netfault.Proxy)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
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

// killed kills the server, and restarts it at once or as the healing.
func killed(atOnce bool) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
		return backendtest.Stage{
			Holder:    server.Addr(),
			Contender: server.Addr(),
			Do: func(t testing.TB) func() {
				t.Helper()
				server.Kill9(t)
				if atOnce {
					server.Restart(t)
					return nil
				}
				return func() { server.Restart(t) }
			},
		}
	}
}
