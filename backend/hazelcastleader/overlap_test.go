package hazelcastleader_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
)

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { t.Helper(); return inMap(fresh())(unharmed(t).Addr()) },
		Dial:     dial,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults:   slices.Concat(backendtest.ConnectionFaults(overlapLease, site), []backendtest.Fault{reset()}, memberFaults()),
		Skip: map[string]string{
			"ConnectionCutBriefly": "the client may hang for good on a connection that is reset before it has " +
				"authenticated; ConnectionReset resets only what has",
		},
	})
}

// reset resets the holder's connection once.
func reset() backendtest.Fault {
	return backendtest.Fault{
		Name: "ConnectionReset", Effect: backendtest.LosesNone, Lease: longOverlapLease,
		Stage: func(t testing.TB) backendtest.Stage {
			t.Helper()
			addr, in := unharmed(t).Addr(), inMap(fresh())
			proxy := behind(t, addr)
			return backendtest.Stage{Holder: in(proxy.Addr()), Contender: in(addr), Do: func(testing.TB) func() {
				proxy.Cut()
				proxy.Mend()
				return nil
			}}
		},
	}
}

// inMap makes the address of a store, which is a map, from those of its members.
func inMap(name string) func(addrs string) string {
	return func(addrs string) string { return addrs + "/" + name }
}

// dial opens a backend on the members at addresses separated by commas, and the map, if one is named, behind a slash. If
// there is one member, the backend has a single connection.
func dial(t testing.TB, address string) backend.Driver {
	t.Helper()
	addrs, name, _ := strings.Cut(address, "/")
	opts := &hazelcastleader.Options{Map: name, MaxSkew: sameMachine}
	if list := strings.Split(addrs, ","); len(list) > 1 {
		return open(t, connect(t, list...), opts)
	}
	return open(t, connectThrough(t, addrs), opts)
}

// site is a map for a fault of the connection to its member.
func site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	return backendtest.Site{Server: unharmed(t).Addr(), Address: inMap(fresh())}
}

// memberFaults hit the one of two members by whose clock leases are judged.
func memberFaults() []backendtest.Fault {
	kill := func(t testing.TB, m *testserver.Server) func() {
		t.Helper()
		m.Kill9(t)
		return func() { m.Restart(t) }
	}
	return []backendtest.Fault{
		{Name: "MemberKilledAndRestarted", Effect: backendtest.LosesSome, Stage: hit(
			func(t testing.TB, m *testserver.Server) func() { t.Helper(); m.Restart(t); return nil })},
		{Name: "MemberAway", Effect: backendtest.LosesSome, Lasts: 2 * overlapLease, Stage: hit(kill)},
		{
			Name: "MemberAwayForALongLease", Effect: backendtest.LosesNone, Lease: longOverlapLease,
			Lasts: longOverlapLease * 2 / 5, Stage: hit(kill),
		},
		{Name: "MemberStopped", Effect: backendtest.LosesSome, Lasts: 2 * overlapLease, Stage: hit(
			func(t testing.TB, m *testserver.Server) func() {
				t.Helper()
				m.Stop(t)
				return func() { m.Cont(t) }
			})},
	}
}

// hit prepares a map of two members, of which a fault is to hit the one that has the clock.
func hit(do func(t testing.TB, m *testserver.Server) func()) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		h := two(t)
		address := inMap(fresh())(strings.Join(h.Addrs(), ","))
		return backendtest.Stage{
			Holder: address, Contender: address,
			Do: func(t testing.TB) func() { t.Helper(); return do(t, smallest(h.Members())) },
		}
	}
}
