package zkleader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
)

// withTimeout adds the timeout of the sessions to an address for dialFor.
func withTimeout(addr string, timeout time.Duration) string { return addr + "/" + timeout.String() }

// dialFor opens a backend on servers, separated by commas, with the session timeout behind the slash.
func dialFor(t testing.TB, addr string) backend.Driver {
	t.Helper()
	servers, text, _ := strings.Cut(addr, "/")
	timeout, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	b := zkleader.New(strings.Split(servers, ","), &zkleader.Options{SessionTimeout: timeout})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start: func(t testing.TB) string {
			t.Helper()
			switch {
			case strings.HasSuffix(t.Name(), "/HandOff"):
				return withTimeout(ownServer(t).Addr(), time.Minute) // its lease time
			case strings.HasSuffix(t.Name(), "/KilledHolder"):
				// The end of the session is known before that of the lease, however busy the server is.
				server := ownServer(t, testserver.ZooKeeperConfig("maxSessionTimeout=1000"))
				return withTimeout(server.Addr(), overlapLease)
			}
			return withTimeout(ownServer(t).Addr(), overlapLease)
		},
		Dial:     dialFor,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: []backendtest.Fault{
			{
				Name:   "FrozenConnection",
				Effect: backendtest.LosesAll,
				Stage:  proxied(overlapLease, (*netfault.Proxy).Freeze),
			},
			{
				Name:   "SilentConnection",
				Effect: backendtest.LosesAll,
				Stage:  proxied(overlapLease, (*netfault.Proxy).Drop),
			},
			{
				Name:   "CutConnection",
				Effect: backendtest.LosesAll,
				Stage:  proxied(overlapLease, (*netfault.Proxy).Cut),
			},
			{
				Name:   "ConnectionFrozenBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  proxied(longOverlapLease, (*netfault.Proxy).Freeze),
			},
			{
				Name:   "ConnectionCutBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  proxied(longOverlapLease, (*netfault.Proxy).Cut),
			},
			{
				Name:   "ConnectionFrozenUntilSomeAreLost",
				Effect: backendtest.LosesSome,
				Lasts:  overlapLease * 3 / 4,
				Stage:  proxied(overlapLease, (*netfault.Proxy).Freeze),
			},
			{
				Name:   "ServerStoppedBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  stopped(longOverlapLease),
			},
			{
				Name:   "ServerKilledAndRestarted",
				Effect: backendtest.LosesSome,
				Stage:  killed(overlapLease, true),
			},
			{
				Name:   "ServerAwayForHalfALease",
				Effect: backendtest.LosesSome,
				Lasts:  overlapLease / 2,
				Stage:  killed(overlapLease, false),
			},
			{
				Name:   "ServerAway",
				Effect: backendtest.LosesAll,
				Lasts:  overlapLease * 3 / 2,
				Within: 5 * time.Second, // a restarted server gives every session its whole timeout
				Stage:  killed(overlapLease, false),
			},
		},
	})
}

// proxied puts a fault on the holder's connections.
func proxied(timeout time.Duration, do func(p *netfault.Proxy)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
		proxy, err := netfault.Listen(t.Context(), server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		return backendtest.Stage{
			Holder:    withTimeout(proxy.Addr(), timeout),
			Contender: withTimeout(server.Addr(), timeout),
			Do: func(testing.TB) func() {
				do(proxy)
				return proxy.Mend
			},
		}
	}
}

// stopped stops the server's process.
func stopped(timeout time.Duration) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
		addr := withTimeout(server.Addr(), timeout)
		return backendtest.Stage{Holder: addr, Contender: addr, Do: func(t testing.TB) func() {
			t.Helper()
			server.Stop(t)
			return func() { server.Cont(t) }
		}}
	}
}

// killed kills the server, and restarts it at once or as the healing.
func killed(timeout time.Duration, atOnce bool) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
		addr := withTimeout(server.Addr(), timeout)
		return backendtest.Stage{Holder: addr, Contender: addr, Do: func(t testing.TB) func() {
			t.Helper()
			server.Kill9(t)
			if atOnce {
				server.Restart(t)
				return nil
			}
			return func() { server.Restart(t) }
		}}
	}
}

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string { return ownServer(t).Addr() },
		Dial: func(t testing.TB, addr string) backend.Driver {
			t.Helper()
			return dialFor(t, withTimeout(addr, 2500*time.Millisecond))
		},
		TCP: true,
	})
}
