package k8sleader_test

import (
	"strings"
	"sync"
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
	g := &ground{test: t}
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return g.address(t, "") },
		Dial:     dialAddress,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Delay:    700 * time.Millisecond, // twenty writes wait for etcd's disk
		Faults: []backendtest.Fault{
			{
				Name:   "FrozenConnection",
				Effect: backendtest.LosesAll,
				Stage:  g.proxied((*netfault.Proxy).Freeze),
			},
			{
				Name:   "SilentConnection",
				Effect: backendtest.LosesAll,
				Stage:  g.proxied((*netfault.Proxy).Drop),
			},
			{
				Name:   "CutConnection",
				Effect: backendtest.LosesAll,
				Stage:  g.proxied((*netfault.Proxy).Cut),
			},
			{
				Name:   "ConnectionFrozenBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  g.proxied((*netfault.Proxy).Freeze),
			},
			{
				Name:   "ConnectionCutBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  g.proxied((*netfault.Proxy).Cut),
			},
			{
				Name:   "ConnectionFrozenUntilSomeAreLost",
				Effect: backendtest.LosesSome,
				Lasts:  overlapLease * 3 / 4,
				Stage:  g.proxied((*netfault.Proxy).Freeze),
			},
			{
				Name:   "ServerStopped",
				Effect: backendtest.LosesSome,
				Lasts:  overlapLease / 2,
				Stage: g.harmed(func(t testing.TB, server *testserver.KubeServer) (heal func()) {
					server.Stop(t)
					return func() { server.Cont(t) }
				}),
			},
			{
				Name:   "ServerKilledAndRestarted",
				Effect: backendtest.LosesSome,
				Stage: g.harmed(func(t testing.TB, server *testserver.KubeServer) (heal func()) {
					server.Restart(t)
					return nil
				}),
			},
			{
				Name:   "ServerAway",
				Effect: backendtest.LosesAll,
				Lasts:  overlapLease * 3 / 2,
				Stage: g.harmed(func(t testing.TB, server *testserver.KubeServer) (heal func()) {
					server.Kill9(t)
					return func() { server.Restart(t) }
				}),
			},
		},
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

// address is that of an empty namespace, and what it takes to get there. via is the proxy to go through, if any.
func (g *ground) address(t testing.TB, via string) string {
	t.Helper()
	server := g.server(t)
	c := newCluster(t, server)
	if via == "" {
		via = server.Addr()
	}
	return strings.Join([]string{via, c.namespace, server.Config()}, " ")
}

// dialAddress returns a backend for what address returned.
func dialAddress(t testing.TB, address string) backend.Driver {
	t.Helper()
	part := strings.Fields(address)
	config := through(configOf(t, part[2]), part[0])
	return open(t, clientOf(t, config).CoordinationV1(), part[1])
}

// proxied puts a fault on the holder's connections.
func (g *ground) proxied(do func(p *netfault.Proxy)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		proxy, err := netfault.Listen(t.Context(), g.server(t).Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		address := g.address(t, "")
		return backendtest.Stage{
			Holder:    strings.Replace(address, g.server(t).Addr(), proxy.Addr(), 1),
			Contender: address,
			Do: func(testing.TB) func() {
				do(proxy)
				return proxy.Mend
			},
		}
	}
}

// harmed puts a fault on the server.
func (g *ground) harmed(do func(t testing.TB, server *testserver.KubeServer) (heal func())) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		address := g.address(t, "")
		return backendtest.Stage{
			Holder:    address,
			Contender: address,
			Do:        func(t testing.TB) func() { return do(t, g.server(t)) },
		}
	}
}
