package hazelcastleader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/internal/testserver"
)

// many is enough names for each of two members to own some.
const many = 20

func winMany(t testing.TB, b backend.Driver) []backend.Lease {
	t.Helper()
	leases := make([]backend.Lease, many)
	for i := range leases {
		leases[i] = win(t, b, request(fmt.Sprint("job-", i), long))
	}
	return leases
}

// patiently repeats a call for as long as the members are unavailable.
func patiently(t testing.TB, what string, call func(ctx context.Context) error) {
	t.Helper()
	eventually(t, what, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := call(ctx)
		if err != nil && backend.KindOf(err) != backend.Unavailable {
			t.Fatalf("%s: %v of kind %v", what, err, backend.KindOf(err))
		}
		return err == nil
	})
}

func TestMembers_OneOfTwoLost_LosesNoLease(t *testing.T) {
	h := two(t)
	for i, m := range h.Members() {
		b, _ := startOn(t, connect(t, h.Addrs()...))
		leases := winMany(t, b)
		m.Kill9(t)
		for n, l := range leases {
			key := fmt.Sprint("job-", n)
			patiently(t, "the lease is renewed", func(ctx context.Context) error { return l.Renew(ctx, long) })
			var found backend.Holder
			patiently(t, "the holder is shown", func(ctx context.Context) (err error) {
				found, err = b.Inspect(ctx, key)
				return err
			})
			if found.Fence != l.Fence() || found.Kept {
				t.Errorf("without member %d %q is held by %+v, want the fence %d", i, key, found, l.Fence())
			}
		}
		m.Restart(t)
		h.AwaitSize(t, 1-i, 2)
	}
}

// What the package comment warns of: a lone member that comes back has forgotten everything.
func TestMembers_ALoneOneRestarted_ForgetsLeasesButFencesGrow(t *testing.T) {
	server := owned(t)
	b, _ := startOn(t, connect(t, server.Addr()))
	old := win(t, b, request("job", long))
	server.Restart(t)
	var next backend.Lease
	patiently(t, "the key is won", func(ctx context.Context) (err error) {
		next, err = b.TryAcquire(ctx, request("job", long))
		return err
	})
	if next.Fence() <= old.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), old.Fence())
	}
	if err := old.Renew(t.Context(), long); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew of a forgotten lease: %v, want ErrLost", err)
	}
	release(t, old, 0)
	if h := inspect(t, b, "job"); h.Fence != next.Fence() {
		t.Errorf("held by %+v, want the fence %d", h, next.Fence())
	}
}

// splitter has the proxies by which members reach each other.
type splitter struct {
	mu      sync.Mutex
	proxies []*netfault.Proxy
}

func (s *splitter) via(t testserver.TB, addr string) string {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), addr)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(proxy.Close)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies = append(s.proxies, proxy)
	return proxy.Addr()
}

func (s *splitter) all(do func(p *netfault.Proxy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.proxies {
		do(p)
	}
}

// What the package comment warns of: members that do not reach each other have a holder on each side, until the split
// has healed or the lease of the older holder is over. Afterwards one of them has lost, and fences still grow.
func TestMembers_SplitAndMerged_HaveTwoHoldersMeanwhile(t *testing.T) {
	var s splitter
	h := testserver.HazelcastTwo(t, testserver.HazelcastVia(s.via))
	opts := &hazelcastleader.Options{Map: fresh(), MaxSkew: sameMachine}
	// Each client stays with one member.
	left := open(t, connectThrough(t, h.Addrs()[0]), opts)
	right := open(t, connectThrough(t, h.Addrs()[1]), opts)
	const ttl = 2 * time.Second
	first := win(t, left, request("job", ttl))
	if h := inspect(t, right, "job"); h.Fence != first.Fence() {
		t.Fatalf("the other member has %+v, want the fence %d", h, first.Fence())
	}

	s.all((*netfault.Proxy).Cut)
	stop, renewed := make(chan struct{}), make(chan error, 1)
	go func() { renewed <- keepRenewing(t.Context(), first, ttl, stop) }()
	h.AwaitSize(t, 1, 1)
	h.AwaitSize(t, 0, 1)
	var second backend.Lease
	eventually(t, "the other side has a holder of its own", func() bool {
		var err error
		second, err = right.TryAcquire(t.Context(), request("job", long))
		return err == nil
	})
	// The first one is renewed after the second was granted: both are trusted.
	renew(t, first, ttl)
	close(stop)
	if err := <-renewed; err != nil {
		t.Errorf("the first holder was told during the split: %v", err)
	}
	if second.Fence() <= first.Fence() {
		t.Errorf("the other side granted the fence %d after %d", second.Fence(), first.Fence())
	}

	s.all((*netfault.Proxy).Mend)
	h.AwaitSize(t, 0, 2)
	h.AwaitSize(t, 1, 2)
	var found backend.Holder
	patiently(t, "both members tell the same", func(ctx context.Context) (err error) {
		found, err = right.Inspect(ctx, "job")
		return err
	})
	lost := 0
	for _, l := range []backend.Lease{first, second} {
		var err error
		patiently(t, "a holder is told", func(ctx context.Context) error {
			if err = l.Renew(ctx, long); errors.Is(err, backend.ErrLost) {
				return nil
			}
			return err
		})
		if errors.Is(err, backend.ErrLost) {
			lost++
		}
	}
	if lost == 0 {
		t.Errorf("nobody has lost the lease after the split, %+v holds it", found)
	}
	if h := inspect(t, left, "job"); !h.Free() {
		if err := left.Break(t.Context(), "job", h.Fence); err != nil {
			t.Fatal(err)
		}
	}
	if l := win(t, left, request("job", long)); l.Fence() <= second.Fence() {
		t.Errorf("fence %d after %d and %d", l.Fence(), first.Fence(), second.Fence())
	}
}

// With a split-brain protection the side that is too small refuses.
func TestMembers_TooFewForTheProtection_AreUnavailable(t *testing.T) {
	h := testserver.HazelcastTwo(t, testserver.HazelcastConfig(
		"split-brain-protection:", "  both:", "    enabled: true", "    minimum-cluster-size: 2",
		"map:", "  leader*:", "    split-brain-protection-ref: both"))
	b, _ := startOn(t, connect(t, h.Addrs()...))
	lease := win(t, b, request("job", long))
	h.Members()[1].Kill9(t)
	h.AwaitSize(t, 0, 1)
	_, err := b.TryAcquire(t.Context(), request("other", long))
	kind(t, "TryAcquire", err, backend.Unavailable)
	kind(t, "Renew", lease.Renew(t.Context(), long), backend.Unavailable)
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("the text has more than a line: %q", err)
	}
}

// keepRenewing renews a lease in time, until it is stopped or fails.
func keepRenewing(ctx context.Context, l backend.Lease, ttl time.Duration, stop <-chan struct{}) error {
	tick := time.NewTicker(ttl / 10)
	defer tick.Stop()
	for {
		err := l.Renew(ctx, ttl)
		if err != nil && backend.KindOf(err) != backend.Unavailable {
			return err
		}
		select {
		case <-tick.C:
		case <-stop:
			return nil
		}
	}
}

func TestClock_OfAnotherMember_IsJudgedLaterByTheSkew(t *testing.T) {
	client := connect(t, unharmed(t).Addr()) // whose clock is that of this machine
	const skew = 700 * time.Millisecond
	name := fresh()
	b := open(t, client, &hazelcastleader.Options{Map: name, MaxSkew: skew})
	m, err := client.GetMap(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	// The end is by the clock of a member that there never was, and has just passed by that of this one.
	until := time.Now().UnixMilli()
	text := fmt.Sprintf(`{"format":1,"fence":7,"token":"T","until":%d,"clock":60000,"nonce":"N"}`, until)
	if err := m.Set(t.Context(), "job", text); err != nil {
		t.Fatal(err)
	}
	h := inspect(t, b, "job")
	if soon := time.Since(time.UnixMilli(until)) < skew; soon && h.Fence != 7 || h.Remaining > skew {
		t.Errorf("within the skew: %+v, want the fence 7 for at most %v", h, skew)
	}
	eventually(t, "the lease is over", func() bool {
		_, err := b.TryAcquire(t.Context(), request("job", long))
		return err == nil
	})
	if over := time.Since(time.UnixMilli(until)); over < skew {
		t.Errorf("it was over after %v, want %v", over, skew)
	}
}

// A member makes 64 ids in a ms. Whoever takes more makes the clock of the generator run ahead, until when it stands
// still, as it does when the member's clock is set back.
func TestClock_RunsAheadWhenMoreIDsAreTakenThanAreMade_AndStandsStill(t *testing.T) {
	addr := owned(t).Addr() // whose clock is that of this machine
	b, _ := startOn(t, connect(t, addr))
	read := func() time.Time {
		t.Helper()
		_, now, err := b.GetRecords(t.Context(), "a!b/")
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	if d := time.Until(read()); d > 0 {
		t.Errorf("the clock is ahead by %v", d)
	}
	var greedy hazelcast.Config
	greedy.Logger = configuration().Logger
	greedy.Cluster.Network.Addresses = []string{addr}
	if err := greedy.AddFlakeIDGenerator(hazelcastleader.GeneratorName, 100_000, 0); err != nil {
		t.Fatal(err)
	}
	ids, err := connectWith(t, greedy).GetFlakeIDGenerator(t.Context(), hazelcastleader.GeneratorName)
	began := time.Now()
	if err == nil {
		_, err = ids.NewID(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	first := read()
	if d := first.Sub(began); d < 1500*time.Millisecond {
		t.Errorf("with 100,000 ids the clock went on by %v", d)
	}
	for range 3 {
		time.Sleep(brief / 3) // A client that has ids in stock would tell the same.
		if now := read(); now.Before(first) {
			t.Errorf("the clock went back from %v to %v", first, now)
		}
	}
}

// Readings are shared, so that many callers do not use up the ids of which a clock is made, but nobody gets one that was
// under way before.
func TestClock_IsReadOnceForAllWhoAskMeanwhile(t *testing.T) {
	b, _ := start(t)
	const callers = 200
	for range 5 {
		before, err := b.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		readings := make(map[int64]int)
		var mu sync.Mutex
		var asking sync.WaitGroup
		for range callers {
			asking.Go(func() {
				id, err := b.Now(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				readings[id]++
			})
		}
		asking.Wait()
		for id, n := range readings {
			if id <= before {
				t.Errorf("%d callers got %d, which was there before: %d", n, id, before)
			}
		}
		if len(readings) > callers/2 {
			t.Errorf("%d callers took %d readings", callers, len(readings))
		}
	}
}
