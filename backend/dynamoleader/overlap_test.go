package dynamoleader_test

import (
	"slices"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/dynamoleader"
	"github.com/goleader/leader/internal/testserver"
)

const overlapLease = 1500 * time.Millisecond

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { t.Helper(); return ownTable(t).Addr() },
		Dial:     dial,
		Fidelity: backendtest.Double,
		Lease:    overlapLease,
		Delay:    700 * time.Millisecond, // twenty take-overs wait for the one thread of the stand-in
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, site),
			backendtest.ServerFaults(overlapLease, 0, site)),
	})
}

// ownTable starts a server with the table of the default name.
func ownTable(t testing.TB) *testserver.Server {
	t.Helper()
	server := owned(t)
	if err := dial(t, server.Addr()).(*dynamoleader.Backend).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return server
}

// dial returns a backend on the server at a host and port.
func dial(t testing.TB, hostPort string) backend.Driver {
	t.Helper()
	return dynamoleader.New(client(t, "http://"+hostPort, nil), nil)
}

// site starts a server for a fault.
func site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	server := ownTable(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
	}
}
