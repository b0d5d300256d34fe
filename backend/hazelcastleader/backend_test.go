package hazelcastleader_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/cluster"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/internal/testserver"
)

func TestBackend_Check_RefusesBadArguments(t *testing.T) {
	client := new(hazelcast.Client)
	for _, c := range []struct {
		client *hazelcast.Client
		opts   *hazelcastleader.Options
		says   string
	}{
		{nil, nil, "the client is nil"},
		{client, &hazelcastleader.Options{Map: "a b"}, "map name"},
		{client, &hazelcastleader.Options{Map: "a*"}, "map name"},
		{client, &hazelcastleader.Options{Map: strings.Repeat("m", 129)}, "longer than 128"},
		{client, &hazelcastleader.Options{MaxSkew: -1}, "skew"},
		{client, &hazelcastleader.Options{MaxSkew: 2 * time.Hour}, "skew"},
	} {
		b := hazelcastleader.New(c.client, c.opts)
		err := b.Check()
		kind(t, c.says, err, backend.Misconfigured)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want it to say %q", c.opts, err, c.says)
		}
		if _, err := b.TryAcquire(t.Context(), request("a", long)); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%+v: TryAcquire: %v", c.opts, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := hazelcastleader.New(client, nil).Check(); err != nil {
		t.Errorf("without options: %v", err)
	}
}

func TestConfigure_LeavesWhatIsThere(t *testing.T) {
	var c hazelcast.Config
	own := cluster.NewRoundRobinLoadBalancer()
	c.Cluster.SetLoadBalancer(own)
	hazelcastleader.Configure(&c)
	hazelcastleader.Configure(&c)
	if c.Cluster.LoadBalancer() != cluster.LoadBalancer(own) {
		t.Errorf("the load balancer was replaced by %v", c.Cluster.LoadBalancer())
	}
	if len(c.FlakeIDGenerators) != 1 {
		t.Errorf("generators %v, want one", c.FlakeIDGenerators)
	}
	for _, g := range c.FlakeIDGenerators {
		if g.PrefetchCount != 1 {
			t.Errorf("%d ids in stock, want 1", g.PrefetchCount)
		}
	}
}

func TestPinnedBalancer_ChoosesTheSameMemberInAnyOrder(t *testing.T) {
	var c hazelcast.Config
	hazelcastleader.Configure(&c)
	b := c.Cluster.LoadBalancer()
	for _, addrs := range [][]cluster.Address{{"b:1", "a:2", "c:3"}, {"c:3", "b:1", "a:2"}, {"a:2"}} {
		if got := b.OneOf(addrs); got != "a:2" {
			t.Errorf("of %v it chose %v", addrs, got)
		}
	}
}

// A client that was not configured would tell the time of when it stocked up on ids.
func TestBackend_ClientThatWasNotConfigured_IsMisconfigured(t *testing.T) {
	var c hazelcast.Config
	c.Cluster.Network.Addresses = []string{lone.get(t).Addr()}
	c.Logger = configuration().Logger
	b, _ := startOn(t, connectWith(t, c))
	for range 3 {
		_, err := b.TryAcquire(t.Context(), request("a", long))
		kind(t, "TryAcquire", err, backend.Misconfigured)
		if err == nil || !strings.Contains(err.Error(), "hazelcastleader.Configure") {
			t.Errorf("TryAcquire: %v, want it to name the remedy", err)
		}
	}
}

// Backends on one client share its clock: neither gets a time that was asked for before it asked.
func TestBackend_SharedClient_ExcludesEachOther(t *testing.T) {
	client := connect(t, lone.get(t).Addr())
	opts := &hazelcastleader.Options{Map: fresh()}
	a, b := open(t, client, opts), open(t, client, opts)
	for range 20 {
		l := win(t, a, request("job", long))
		if h := holder(t, b, "job"); h.Fence != l.Fence() {
			t.Fatalf("held by %+v, want the fence %d", h, l.Fence())
		}
		release(t, l, 0)
		a, b = b, a
	}
}

func TestBackend_ClosedClient_IsMisconfigured(t *testing.T) {
	client := connect(t, lone.get(t).Addr())
	b, _ := startOn(t, client)
	lease := win(t, b, request("a", long))
	if err := client.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	kind(t, "Renew", lease.Renew(t.Context(), long), backend.Misconfigured)
	_, err := b.Inspect(t.Context(), "a")
	kind(t, "Inspect", err, backend.Misconfigured)
}

// The entry of a key that was released is not read before it is taken again; others may have had it meanwhile.
func TestBackend_TryAcquire_OfAKeyItReleased_SeesWhatOthersDid(t *testing.T) {
	client := connect(t, lone.get(t).Addr())
	opts := &hazelcastleader.Options{Map: fresh()}
	a, b := open(t, client, opts), open(t, client, opts)
	m, err := client.GetMap(t.Context(), opts.Map)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // after which it is not read any more
		release(t, win(t, a, request("job", long)), 0)
	}
	last := win(t, a, request("job", long))
	grown := func(what string, l backend.Lease) {
		t.Helper()
		if l.Fence() <= last.Fence() {
			t.Errorf("%s: fence %d after %d", what, l.Fence(), last.Fence())
		}
		last = l
	}
	release(t, last, 0)
	grown("nobody else had it", win(t, a, request("job", long)))

	release(t, last, 0)
	grown("another took it", win(t, b, request("job", long)))
	if h := holder(t, a, "job"); h.Fence != last.Fence() {
		t.Errorf("held by %+v, want the fence %d", h, last.Fence())
	}
	release(t, last, 0)
	grown("another had it", win(t, a, request("job", long)))

	for range 3 {
		release(t, last, 0)
		grown("nobody else had it", win(t, a, request("job", long)))
	}
	release(t, last, 0)
	if err := m.Delete(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	grown("it was deleted", win(t, a, request("job", long)))

	for range 3 {
		release(t, last, 0)
		grown("nobody else had it", win(t, a, request("job", long)))
	}
	req := request("job", long)
	release(t, last, 0)
	if err := b.Abandon(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if _, err := a.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a token that was spent meanwhile: %v, want ErrLost", err)
	}
}

func TestBackend_Advise_WarnsOfSettingsThatCostSafety(t *testing.T) {
	server := testserver.Hazelcast(t,
		testserver.HazelcastConfig("map:", "  brief*:", "    time-to-live-seconds: 77", "  idle*:", "    max-idle-seconds: 77"))
	client := connect(t, server.Addr())
	for name, word := range map[string]string{"sound": "", "brief": "time-to-live", "idle": "max-idle"} {
		b := open(t, client, &hazelcastleader.Options{Map: name})
		list, err := b.Advise(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(list, "\n")
		if (word == "") != (len(list) == 0) || !strings.Contains(text, word) {
			t.Errorf("%s: %q", name, list)
		}
		m, err := client.GetMap(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := m.Size(t.Context()); n != 0 || err != nil {
			t.Errorf("%s: %d entries are left, %v", name, n, err)
		}
	}
}

// Processes that start together do not take each other's entry for one that the members have evicted.
func TestBackend_Advise_BesideOthers_WarnsOfNothing(t *testing.T) {
	b, _ := start(t)
	var asking sync.WaitGroup
	defer asking.Wait()
	for range 8 {
		asking.Go(func() {
			for range 20 {
				if list, err := b.Advise(t.Context()); len(list) > 0 || err != nil {
					t.Errorf("%q, %v", list, err)
				}
			}
		})
	}
}

// The numbers of a member that makes other ids would be taken for a time that stands still, or runs.
func TestBackend_MembersThatMakeOtherIDs_AreMisconfigured(t *testing.T) {
	server := testserver.Hazelcast(t,
		testserver.HazelcastConfig("flake-id-generator:", "  default:", "    bits-node-id: 10"))
	b, _ := startOn(t, connect(t, server.Addr()))
	for range 3 {
		_, err := b.TryAcquire(t.Context(), request("a", long))
		kind(t, "TryAcquire", err, backend.Misconfigured)
	}
}

func TestBackend_Advise_WarnsOfSeveralClocks(t *testing.T) {
	h := two(t)
	c := configuration(h.Addrs()...)
	pinned, _ := startOn(t, connectWith(t, c))
	c.Cluster.SetLoadBalancer(cluster.NewRoundRobinLoadBalancer())
	free, _ := startOn(t, connectWith(t, c))
	eventually(t, "the client reads both clocks", func() bool {
		list, err := free.Advise(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(list, "\n"), "PinnedBalancer")
	})
	if list, err := pinned.Advise(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("pinned: %q, %v", list, err)
	}
	// Leases exclude each other by whichever clock.
	name := fresh()
	a := open(t, connectWith(t, c), &hazelcastleader.Options{Map: name, MaxSkew: sameMachine})
	b := open(t, connect(t, h.Addrs()...), &hazelcastleader.Options{Map: name, MaxSkew: sameMachine})
	for range 10 {
		l := win(t, a, request("job", long))
		if got := holder(t, b, "job"); got.Fence != l.Fence() {
			t.Fatalf("held by %+v, want the fence %d", got, l.Fence())
		}
		renew(t, l, long)
		release(t, l, 0)
	}
}

// The members' own TTL is only for what nobody reads any more, and goes when a record is replaced.
func TestBackend_PutRecord_LeavesNoTTLOnAReplacedRecord(t *testing.T) {
	client := connect(t, lone.get(t).Addr())
	name := fresh()
	b := open(t, client, &hazelcastleader.Options{Map: name})
	m, err := client.GetMap(t.Context(), name+"_records")
	if err != nil {
		t.Fatal(err)
	}
	r := backend.Record{Key: "a!b/c", Value: []byte("x"), TTL: 10 * time.Second}
	if r.Version, err = b.PutRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	ttl := func() time.Duration {
		view, err := m.GetEntryView(t.Context(), r.Key)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(min(view.TTL, time.Hour.Milliseconds())) * time.Millisecond
	}
	if got := ttl(); got < time.Minute || got >= time.Hour {
		t.Errorf("a new record goes after %v", got)
	}
	r.TTL = time.Hour
	if _, err = b.PutRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := ttl(); got < time.Hour {
		t.Errorf("a replaced record goes after %v", got)
	}
}

func TestBackend_GetRecords_DeletesWhatHasExpired(t *testing.T) {
	client := connect(t, lone.get(t).Addr())
	name := fresh()
	b := open(t, client, &hazelcastleader.Options{Map: name})
	m, err := client.GetMap(t.Context(), name+"_records")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutRecord(t.Context(), backend.Record{Key: "a!b/c", TTL: 10 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool {
		if _, _, err := b.GetRecords(t.Context(), "a!b/"); err != nil {
			t.Fatal(err)
		}
		n, err := m.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

func TestBackend_Close_IsRepeatable(t *testing.T) {
	b, _ := start(t)
	win(t, b, request("a", long))
	waited := make(chan error, 1)
	go func() { waited <- b.AwaitRelease(context.WithoutCancel(t.Context()), "a", inspect(t, b, "a").Seen) }()
	time.Sleep(brief / 3)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-waited; backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("AwaitRelease on a closed backend: %v", err)
	}
}
