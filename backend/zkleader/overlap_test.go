package zkleader_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
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
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, site), []backendtest.Fault{
			{
				Name:   "ServerStoppedBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  stopped(longOverlapLease),
			},
			// A restarted server gives every session its whole timeout.
		}, backendtest.ServerFaults(overlapLease, 5*time.Second, site)),
	})
}

// site starts a server for a fault; its sessions last as long as the leases.
func site(t testing.TB, lease time.Duration) backendtest.Site {
	t.Helper()
	server := ownServer(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Address: func(hostPort string) string { return withTimeout(hostPort, lease) },
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
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
