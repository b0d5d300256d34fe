package redisleader_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/internal/testserver"
)

const overlapLease = 1500 * time.Millisecond

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
		// The client itself tries to connect once a second.
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, site),
			backendtest.ServerFaults(overlapLease, 5*time.Second, site)),
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

// site starts a server for a fault.
func site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	server := ownServer(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
	}
}
