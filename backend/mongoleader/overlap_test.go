package mongoleader_test

import (
	"testing"
	"time"

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
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { t.Helper(); return owned(t).URL() },
		Dial:     dialURL,
		Fidelity: backendtest.Double,
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
				Name:   "ServerAway",
				Effect: backendtest.LosesAll,
				Lasts:  overlapLease * 3 / 2,
				Within: 5 * time.Second, // the client looks for the server every half second
				Stage:  killed(false),
			},
		},
	})
}

// dialURL opens a backend on the server at a URL.
func dialURL(t testing.TB, url string) backend.Driver {
	t.Helper()
	return open(t, connectURL(t, url).Database("overlap"), nil)
}

// proxied puts a fault on the holder's connections.
func proxied(do func(p *netfault.Proxy)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := owned(t)
		proxy := behind(t, server)
		return backendtest.Stage{
			Holder:    "mongodb://" + proxy.Addr(),
			Contender: server.URL(),
			Do: func(testing.TB) func() {
				do(proxy)
				return proxy.Mend
			},
		}
	}
}

// behind returns a proxy before a server.
func behind(t testing.TB, server *testserver.Server) *netfault.Proxy {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// killed kills the server, and restarts it at once or as the healing.
func killed(atOnce bool) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := owned(t)
		return backendtest.Stage{
			Holder:    server.URL(),
			Contender: server.URL(),
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
