package mysqlleader_test

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/mysqlleader"
)

const overlapLease = 1500 * time.Millisecond

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return ownServer(t).URL() },
		Dial:     dial,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, site),
			backendtest.ServerFaults(overlapLease, 0, site)),
	})
}

// dial returns a backend on the server with that URL, which makes its own tables.
func dial(t testing.TB, serverURL string) backend.Driver {
	t.Helper()
	return open(t, connectTo(t, serverURL), &mysqlleader.Options{CreateTable: true})
}

// site starts a server for a fault.
func site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	server := ownServer(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Address: func(hostPort string) string { return urlAt(t, server.URL(), hostPort) },
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
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
