package mysqlleader_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/mysqlleader"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
)

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return ownServer(t).URL() },
		Dial:     dial,
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
				Stage:  killed(false),
			},
		},
	})
}

// dial returns a backend on the server with that URL, which makes its own tables.
func dial(t testing.TB, serverURL string) backend.Driver {
	t.Helper()
	return open(t, connectTo(t, serverURL), &mysqlleader.Options{CreateTable: true})
}

// proxied puts a fault on the holder's connections.
func proxied(do func(p *netfault.Proxy)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
		proxy := proxyOf(t, server)
		return backendtest.Stage{
			Holder:    urlAt(t, server.URL(), proxy.Addr()),
			Contender: server.URL(),
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

// urlAt is a server's URL as it is reached at another address.
func urlAt(t testing.TB, serverURL, addr string) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}
