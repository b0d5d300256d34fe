package consulleader_test

import (
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

// replaced is longer than it takes until somebody else may have the key of a holder who was cut off: a session of the
// shortest lease ends after up to 20.4 s, and the lock-delay comes on top.
const replaced = 35 * ttl / 10

// elsewhere are the faults of processes, which TestOverlap has.
var elsewhere = map[string]string{
	"StoppedHolder": "see TestOverlap", "KilledHolder": "see TestOverlap", "HandOff": "see TestOverlap",
}

func overlapConfig(skip map[string]string, faults ...backendtest.Fault) backendtest.OverlapConfig {
	return backendtest.OverlapConfig{
		Start: func(t testing.TB) string { return ownServer(t).Addr() },
		Dial: func(t testing.TB, addr string) backend.Driver {
			t.Helper()
			return open(t, connectTo(t, addr, ""), nil)
		},
		Fidelity: backendtest.Real,
		Lease:    ttl,
		Faults:   faults,
		Skip:     skip,
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	backendtest.Overlap(t, overlapConfig(nil))
}

func TestOverlap_Connection(t *testing.T) {
	t.Parallel()
	backendtest.Overlap(t, overlapConfig(
		elsewhere,
		backendtest.Fault{
			Name:   "FrozenConnection",
			Effect: backendtest.LosesAll,
			Lasts:  replaced,
			Stage:  proxied((*netfault.Proxy).Freeze),
		},
		backendtest.Fault{
			Name:   "CutConnection",
			Effect: backendtest.LosesAll,
			Lasts:  replaced,
			Stage:  proxied((*netfault.Proxy).Cut),
		},
		backendtest.Fault{
			Name:   "ConnectionFrozenBriefly",
			Effect: backendtest.LosesNone,
			Lasts:  ttl * 2 / 5,
			Stage:  proxied((*netfault.Proxy).Freeze),
		},
		backendtest.Fault{
			Name:   "ConnectionCutBriefly",
			Effect: backendtest.LosesNone,
			Lasts:  ttl * 2 / 5,
			Stage:  proxied((*netfault.Proxy).Cut),
		},
	))
}

func TestOverlap_Server(t *testing.T) {
	t.Parallel()
	backendtest.Overlap(t, overlapConfig(
		elsewhere,
		backendtest.Fault{
			Name:   "ServerKilledAndRestarted",
			Effect: backendtest.LosesSome,
			Stage:  killed(true),
		},
		backendtest.Fault{
			Name:   "ServerAwayForHalfALease",
			Effect: backendtest.LosesSome,
			Lasts:  ttl / 2,
			Stage:  killed(false),
		},
		backendtest.Fault{
			Name:   "ServerStopped",
			Effect: backendtest.LosesAll,
			Lasts:  ttl * 3 / 2,
			Stage:  stopped,
		},
		backendtest.Fault{
			Name:   "SessionsDestroyed",
			Effect: backendtest.LosesAll,
			Lasts:  ttl * 3 / 2, // the lock-delay
			Stage:  sessionsDestroyed,
		},
	))
}

// stopped stops the server (SIGSTOP), and continues it as the healing.
func stopped(t testing.TB) backendtest.Stage {
	t.Helper()
	server := ownServer(t)
	return backendtest.Stage{
		Holder:    server.Addr(),
		Contender: server.Addr(),
		Do: func(t testing.TB) func() {
			t.Helper()
			server.Stop(t)
			return func() { server.Cont(t) }
		},
	}
}

// ownServer starts a server that the test may harm.
func ownServer(t testing.TB, opts ...testserver.ConsulOption) *testserver.Server {
	t.Helper()
	server := testserver.Consul(t, opts...)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// proxied puts a fault on the holder's connections.
func proxied(do func(p *netfault.Proxy)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
		proxy, err := netfault.Listen(t.Context(), server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		return backendtest.Stage{
			Holder:    proxy.Addr(),
			Contender: server.Addr(),
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
			Holder:    server.Addr(),
			Contender: server.Addr(),
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

// sessionsDestroyed ends every session, as an operator may, or the end of the node.
func sessionsDestroyed(t testing.TB) backendtest.Stage {
	t.Helper()
	server := ownServer(t)
	client := connect(t, server)
	return backendtest.Stage{
		Holder:    server.Addr(),
		Contender: server.Addr(),
		Do: func(t testing.TB) func() {
			t.Helper()
			for _, id := range sessions(t, client) {
				destroy(t, client, id)
			}
			return nil
		},
	}
}
