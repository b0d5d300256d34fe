package mongoleader_test

import (
	"slices"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

const overlapLease = 1500 * time.Millisecond

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { t.Helper(); return owned(t).URL() },
		Dial:     dialURL,
		Fidelity: backendtest.Double,
		Lease:    overlapLease,
		// The client looks for the server every half second.
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, site),
			backendtest.ServerFaults(overlapLease, 5*time.Second, site)),
	})
}

// dialURL opens a backend on the server at a URL.
func dialURL(t testing.TB, url string) backend.Driver {
	t.Helper()
	return open(t, connectURL(t, url).Database("overlap"), nil)
}

// site starts a server for a fault.
func site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	server := owned(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Address: func(hostPort string) string { return "mongodb://" + hostPort },
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
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
