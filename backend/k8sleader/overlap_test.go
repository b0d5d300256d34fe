package k8sleader_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/internal/testserver"
)

const overlapLease = 1500 * time.Millisecond

func TestOverlap(t *testing.T) {
	g := &ground{test: t}
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return g.address(t) },
		Dial:     dialAddress,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Delay:    700 * time.Millisecond, // twenty writes wait for etcd's disk
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, g.site), []backendtest.Fault{
			{
				Name:   "ServerStopped",
				Effect: backendtest.LosesSome,
				Lasts:  overlapLease / 2,
				Stage: g.harmed(func(t testing.TB, server *testserver.KubeServer) (heal func()) {
					server.Stop(t)
					return func() { server.Cont(t) }
				}),
			},
		}, backendtest.ServerFaults(overlapLease, 0, g.site)),
	})
}

// ground is the one server of the faults, which takes seconds to start. Each fault has a namespace of its own. The
// processes of the test, which come by here too, do not start one.
type ground struct {
	test *testing.T
	once sync.Once
	up   *testserver.KubeServer
}

func (g *ground) server(t testing.TB) *testserver.KubeServer {
	t.Helper()
	g.once.Do(func() { g.up = testserver.Kube(g.test) })
	if !g.up.Owned() {
		t.Skip("this needs a server of its own")
	}
	return g.up
}

// address is that of an empty namespace, and what it takes to get there.
func (g *ground) address(t testing.TB) string {
	t.Helper()
	server := g.server(t)
	return strings.Join([]string{server.Addr(), newCluster(t, server).namespace, server.Config()}, " ")
}

// dialAddress returns a backend for what address returned.
func dialAddress(t testing.TB, address string) backend.Driver {
	t.Helper()
	part := strings.Fields(address)
	config := through(configOf(t, part[2]), part[0])
	return open(t, clientOf(t, config).CoordinationV1(), part[1])
}

// site is an empty namespace for a fault.
func (g *ground) site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	server := g.server(t)
	address := g.address(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Address: func(hostPort string) string { return strings.Replace(address, server.Addr(), hostPort, 1) },
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
	}
}

// harmed puts a fault on the server.
func (g *ground) harmed(do func(t testing.TB, server *testserver.KubeServer) (heal func())) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		address := g.address(t)
		return backendtest.Stage{
			Holder:    address,
			Contender: address,
			Do:        func(t testing.TB) func() { return do(t, g.server(t)) },
		}
	}
}
