package consulleader_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
)

// waitLost waits for the channel of a lease to be closed.
func waitLost(t testing.TB, lease backend.Lease) {
	t.Helper()
	notifier, ok := lease.(backend.LossNotifier)
	if !ok {
		t.Fatal("the lease is no LossNotifier")
	}
	select {
	case <-notifier.Lost():
	case <-time.After(patience):
		t.Fatalf("not lost after %v", patience)
	}
}

func TestLease_Lost_IsClosedWhenTheSessionIsDestroyedOrTheKeyDeleted(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, noDelay)
	for name, end := range map[string]func(p *api.KVPair){
		"destroyed": func(p *api.KVPair) { destroy(t, client, p.Session) },
		"deleted": func(p *api.KVPair) {
			if _, err := client.KV().Delete(p.Key, nil); err != nil {
				t.Fatal(err)
			}
		},
		"unlocked": func(p *api.KVPair) {
			if ok, _, err := client.KV().Release(p, nil); err != nil || !ok {
				t.Fatal(ok, err)
			}
		},
	} {
		lease := win(t, b, request(name, long))
		notifier := lease.(backend.LossNotifier)
		lost := notifier.Lost()
		<-time.After(2 * consulleader.LossDelay)
		select {
		case <-lost:
			t.Errorf("%s: told of a loss before there was one", name)
		default:
		}
		end(pair(t, client, name))
		waitLost(t, lease)
		if err := lease.Renew(t.Context(), long); !errors.Is(err, backend.ErrLost) {
			t.Errorf("%s: Renew: %v", name, err)
		}
		if next := win(t, b, request(name, long)); next.Fence() <= lease.Fence() {
			t.Errorf("%s: fence %d after %d", name, next.Fence(), lease.Fence())
		}
		release(t, lease, 0)
		if inspect(t, b, name).Free() {
			t.Errorf("%s: the release of the lost lease ended the next", name)
		}
	}
}

func TestLease_Lost_IsNotWatchedForInAShortTerm(t *testing.T) {
	t.Parallel()
	b, f := through(t, ownServer(t), nil)
	for range 20 {
		lease := win(t, b, request("a", long))
		_ = lease.(backend.LossNotifier).Lost()
		release(t, lease, 0)
	}
	<-time.After(2 * consulleader.LossDelay)
	if n := f.count("index="); n != 0 {
		t.Errorf("%d blocking queries", n)
	}
}

func TestLease_Renew_OfADestroyedSessionIsLost(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	destroy(t, client, pair(t, client, "a").Session)
	lost(t, "Renew", lease.Renew(t.Context(), long))
	lost(t, "Renew", lease.Renew(t.Context(), long))
	release(t, lease, 0)
	if p := pair(t, client, "a"); p != nil {
		t.Errorf("left %+v", p)
	}
}

func TestLease_Renew_ProvesThatTheKeyIsHeld(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	p := pair(t, client, "a")
	// The session lives, and the key is locked by another one.
	if _, err := client.KV().Delete(p.Key, nil); err != nil {
		t.Fatal(err)
	}
	next := win(t, open(t, client, nil), request("a", long))
	lost(t, "Renew", lease.Renew(t.Context(), long))
	release(t, lease, 0)
	renew(t, next)
}

func TestLease_AnEditOfTheRecordNeitherEndsNorHindersIt(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	for range 2 {
		p := pair(t, client, "a")
		p.Value = []byte(strings.Replace(string(p.Value), `{"format":1,`, `{"format":1,"note":"x",`, 1))
		if _, err := client.KV().Put(p, nil); err != nil {
			t.Fatal(err)
		}
		renew(t, lease)
	}
	p := pair(t, client, "a")
	p.Flags = 7
	if _, err := client.KV().Put(p, nil); err != nil {
		t.Fatal(err)
	}
	release(t, lease, 0)
	if p := pair(t, client, "a"); p != nil {
		t.Errorf("left %+v", p)
	}
}

func TestBackend_ARecordWithoutASessionIsNoLease(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	win(t, b, request("a", long))
	p := pair(t, client, "a")
	if _, err := client.KV().Delete(p.Key, nil); err != nil {
		t.Fatal(err)
	}
	// As a restored backup leaves it.
	if _, err := client.KV().Put(&api.KVPair{Key: p.Key, Value: p.Value}, nil); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, b, "a"); !h.Free() {
		t.Errorf("holder %+v", h)
	}
	stray := pair(t, client, "a")
	next := win(t, b, request("a", long))
	if next.Fence() <= stray.CreateIndex {
		t.Errorf("fence %d, and the stray record was created under %d", next.Fence(), stray.CreateIndex)
	}
	renew(t, next)
}

func TestBackend_LeasesUnderTenSecondsAreRefusedNamingTheLimit(t *testing.T) {
	t.Parallel()
	b, f := through(t, ownServer(t), nil)
	for limit, ttls := range map[string][]time.Duration{
		"10s":     {0, time.Second, ttl - 1},
		"24h0m0s": {consulleader.MaxTTL + 1},
	} {
		for _, bad := range ttls {
			_, err := b.TryAcquire(t.Context(), request("a", bad))
			kind(t, bad.String(), err, backend.Misconfigured)
			if err == nil || !strings.Contains(err.Error(), limit) {
				t.Errorf("%v: %v, which does not name %s", bad, err, limit)
			}
		}
	}
	_, err := leader.New(b, leader.WithLeaseTime(ttl-1))
	if !errors.Is(err, leader.ErrInvalidOption) || !strings.Contains(err.Error(), "10s") {
		t.Errorf("New: %v, which does not name 10s", err)
	}
	if f.count("") > 0 {
		t.Error("a request was sent")
	}
	for _, good := range []time.Duration{ttl, ttl + 1, consulleader.MaxTTL} {
		lease := win(t, b, request("a", good))
		renew(t, lease)
		release(t, lease, 0)
	}
}

func TestBackend_LockDelay_IsTheLeaseTimeUnlessGiven(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	for name, test := range map[string]struct {
		option, ttl, want time.Duration
	}{
		"the lease time":          {0, ttl, ttl},
		"at most a minute":        {0, long, time.Minute},
		"given":                   {3 * time.Second, ttl, 3 * time.Second},
		"none, not Consul's 15 s": {-1, ttl, 0},
	} {
		b := open(t, client, &consulleader.Options{LockDelay: test.option})
		lease := win(t, b, request("a", test.ttl))
		info, _, err := client.Session().Info(pair(t, client, "a").Session, nil)
		if err != nil {
			t.Fatal(err)
		}
		if info.LockDelay != test.want || info.Behavior != "delete" || len(info.NodeChecks) > 0 || len(info.Checks) > 0 {
			t.Errorf("%s: session %+v, want lock-delay %v, no checks", name, info, test.want)
		}
		release(t, lease, 0)
		release(t, win(t, b, request("a", test.ttl)), 0) // a release delays nobody
		if err := b.Break(t.Context(), "a", win(t, b, request("a", test.ttl)).Fence()); err != nil {
			t.Error(err)
		}
		release(t, win(t, b, request("a", test.ttl)), 0) // nor does a break
	}
}

func TestBackend_LockDelay_CoversAHolderWhoHasNotHeard(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	sent := time.Now()
	win(t, b, request("a", ttl)) // and trusts it for a TTL, whatever happens
	destroy(t, client, pair(t, client, "a").Session)
	destroyed := time.Now()
	other := open(t, client, nil)
	eventually(t, "the key can be had", func() bool {
		lease, err := other.TryAcquire(t.Context(), request("a", ttl))
		if err != nil && !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
		if err == nil && time.Since(sent) < ttl {
			t.Errorf("fence %d was had %v after the acquisition", lease.Fence(), time.Since(sent))
		}
		return err == nil
	})
	if took := time.Since(destroyed); took > ttl+5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestBackend_Close_EndsWhatIsIdleAndLeavesWhatIsHeld(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	held := win(t, b, request("held", long))
	kept := win(t, b, request("kept", long))
	release(t, kept, ttl)
	idle := win(t, b, request("idle", long))
	session := pair(t, client, "idle").Session
	release(t, idle, 0)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	left := sessions(t, client)
	slices.Sort(left)
	want := []string{pair(t, client, "held").Session, pair(t, client, "kept").Session}
	slices.Sort(want)
	if !slices.Equal(left, want) || slices.Contains(left, session) {
		t.Errorf("sessions %v, want %v", left, want)
	}
	renew(t, held)
	release(t, held, 0)
	if !inspect(t, b, "held").Free() || inspect(t, b, "kept").Free() {
		t.Error("Close ended what was kept, or the release did not end the lease")
	}
	_, err := b.TryAcquire(t.Context(), request("idle", long))
	kind(t, "TryAcquire after Close", err, backend.Misconfigured)
}

func TestLease_Release_KeepsTheKeyUnderASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	before := pair(t, client, "a")
	const keep = time.Minute
	release(t, lease, keep)
	after := pair(t, client, "a")
	info, _, err := client.Session().Info(after.Session, nil)
	if err != nil || info == nil {
		t.Fatal(info, err)
	}
	if after.CreateIndex != before.CreateIndex || after.Session == before.Session || info.TTL != (keep+consulleader.Reuse).String() {
		t.Errorf("the key %+v is held by %+v", after, info)
	}
	if strings.Contains(string(after.Value), "token") {
		t.Errorf("the record still has a token: %s", after.Value)
	}
	release(t, lease, brief) // anew, and shorter
	eventually(t, "the key is free", func() bool { return inspect(t, b, "a").Free() })
	if err := lease.Release(t.Context(), consulleader.MaxTTL+1); err == nil || backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("a keep beyond the limits: %v", err)
	}
	eventually(t, "nothing is left but the idle session", func() bool { return len(sessions(t, client)) <= 1 })
}
