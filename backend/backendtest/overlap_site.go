package backendtest

import (
	"testing"
	"time"

	"github.com/goleader/leader/backend/backendtest/netfault"
)

// Site is a fresh store behind a server of its own, which a fault may harm.
type Site struct {
	// Server is the host and port of the server.
	Server string

	// Address is what OverlapConfig.Dial gets for the store, where its server is reached at a host and port: at its own, or
	// at those of a proxy. Nil means the host and port themselves.
	Address func(hostPort string) string

	// Kill ends the server without warning, and Restart starts it again with what it had acknowledged. ConnectionFaults
	// need neither.
	Kill, Restart func(t testing.TB)
}

func (s *Site) address(hostPort string) string {
	if s.Address == nil {
		return hostPort
	}
	return s.Address(hostPort)
}

// ConnectionFaults are what connections suffer, for every store that is reached over TCP: they freeze, are silent or are
// cut, for good, or too briefly to cost a lease. lease is the shortest lease time that the store keeps well; a fault that
// must not cost a lease has one of four times that. site makes a store for each fault, with leases of the time given.
func ConnectionFaults(lease time.Duration, site func(t testing.TB, lease time.Duration) Site) []Fault {
	long := 4 * lease
	proxied := func(lease time.Duration, do func(p *netfault.Proxy)) func(t testing.TB) Stage {
		return func(t testing.TB) Stage {
			t.Helper()
			s := site(t, lease)
			return s.behindProxy(t, do)
		}
	}
	return []Fault{
		{Name: "FrozenConnection", Effect: LosesAll, Lease: lease, Stage: proxied(lease, (*netfault.Proxy).Freeze)},
		{Name: "SilentConnection", Effect: LosesAll, Lease: lease, Stage: proxied(lease, (*netfault.Proxy).Drop)},
		{Name: "CutConnection", Effect: LosesAll, Lease: lease, Stage: proxied(lease, (*netfault.Proxy).Cut)},
		{
			Name: "ConnectionFrozenBriefly", Effect: LosesNone, Lease: long, Lasts: long * 2 / 5,
			Stage: proxied(long, (*netfault.Proxy).Freeze),
		},
		{
			Name: "ConnectionCutBriefly", Effect: LosesNone, Lease: long, Lasts: long * 2 / 5,
			Stage: proxied(long, (*netfault.Proxy).Cut),
		},
		{
			Name: "ConnectionFrozenUntilSomeAreLost", Effect: LosesSome, Lease: lease, Lasts: lease * 3 / 4,
			Stage: proxied(lease, (*netfault.Proxy).Freeze),
		},
	}
}

// ServerFaults are what every server suffers that keeps what it has acknowledged: it is killed and restarted at once, or
// after half a lease, or when every lease is over, after which the contender has to lead within the time given; 0 means
// that only the suite's patience bounds it. lease and site are those of ConnectionFaults.
func ServerFaults(lease, within time.Duration, site func(t testing.TB, lease time.Duration) Site) []Fault {
	killed := func(atOnce bool) func(t testing.TB) Stage {
		return func(t testing.TB) Stage {
			t.Helper()
			s := site(t, lease)
			return s.killed(atOnce)
		}
	}
	return []Fault{
		{Name: "ServerKilledAndRestarted", Effect: LosesSome, Lease: lease, Stage: killed(true)},
		{Name: "ServerAwayForHalfALease", Effect: LosesSome, Lease: lease, Lasts: lease / 2, Stage: killed(false)},
		{
			Name: "ServerAway", Effect: LosesAll, Lease: lease, Lasts: lease * 3 / 2, Within: within, Stage: killed(false),
		},
	}
}

// behindProxy puts a fault on the holder's connections.
func (s *Site) behindProxy(t testing.TB, do func(p *netfault.Proxy)) Stage {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), s.Server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return Stage{
		Holder:    s.address(proxy.Addr()),
		Contender: s.address(s.Server),
		Do: func(testing.TB) func() {
			do(proxy)
			return proxy.Mend
		},
	}
}

// killed kills the server, and restarts it at once or as the healing.
func (s *Site) killed(atOnce bool) Stage {
	return Stage{
		Holder:    s.address(s.Server),
		Contender: s.address(s.Server),
		Do: func(t testing.TB) func() {
			t.Helper()
			s.Kill(t)
			if atOnce {
				s.Restart(t)
				return nil
			}
			return func() { s.Restart(t) }
		},
	}
}
