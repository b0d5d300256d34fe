package zkleader_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/internal/testserver"
)

// faulty returns a backend behind a proxy, and another one that is not.
func faulty(t *testing.T, timeout time.Duration) (b, other *zkleader.Backend, proxy *netfault.Proxy) {
	t.Helper()
	server := testserver.ZooKeeper(t)
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	opts := &zkleader.Options{Root: root(t), SessionTimeout: timeout}
	return open(t, proxy.Addr(), opts), open(t, server.Addr(), opts), proxy
}

// root is a node of the test's own, as the server may be the user's.
func root(t *testing.T) string {
	t.Helper()
	return "/leader-test-" + strings.ReplaceAll(t.Name(), "/", "-")
}

func acquires(packet []byte) bool { return strings.Contains(string(packet), `"token":`) }

func TestBackend_TryAcquire_RepeatedAfterALostAnswerIsTheSameLease(t *testing.T) {
	b, other, proxy := faulty(t, 5*time.Second)
	acquired(t, b, request("warm", time.Second))
	trap := proxy.SwallowReply(acquires)
	req := request("job", 5*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.TryAcquire(ctx, req); err == nil {
		t.Fatal("TryAcquire succeeds without an answer")
	}
	if err := trap.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := other.Inspect(t.Context(), "job")
	if err != nil || h.Free() {
		t.Fatalf("Inspect = %+v, %v: want that the attempt was applied", h, err)
	}
	l := acquired(t, b, req)
	if l.Fence() != h.Fence {
		t.Errorf("fence %d, want %d as the first attempt got", l.Fence(), h.Fence)
	}
	if err := l.Release(t.Context(), 0); err != nil {
		t.Error(err)
	}
	acquired(t, other, request("job", time.Second))
}

func TestBackend_TryAcquire_AppliedWithoutAnAnswerLastsOneLease(t *testing.T) {
	b, other, proxy := faulty(t, 20*time.Second)
	acquired(t, b, request("warm", time.Second))
	trap := proxy.SwallowReply(acquires)
	const ttl = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	if _, err := b.TryAcquire(ctx, request("job", ttl)); err == nil {
		t.Fatal("TryAcquire succeeds without an answer")
	}
	if err := trap.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The session lives on, and other leases on it are renewed.
	l := acquired(t, b, request("neighbor", ttl))
	began := time.Now()
	eventually(t, "the key is free", func() bool {
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatalf("Renew of a neighbor: %v", err)
		}
		_, err := other.TryAcquire(t.Context(), request("job", ttl))
		return err == nil
	})
	if took := time.Since(began); took > ttl+2*time.Second {
		t.Errorf("free after %v, want at most one lease of %v", took, ttl)
	}
}

func TestBackend_TryAcquire_DeliveredAfterItWasAbandonedOpensNoTerm(t *testing.T) {
	b, other, proxy := faulty(t, 5*time.Second)
	acquired(t, b, request("warm", time.Second))
	trap := proxy.HoldRequest(acquires)
	req := request("job", 5*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.TryAcquire(ctx, req); err == nil {
		t.Fatal("TryAcquire succeeds without an answer")
	}
	if err := b.Abandon(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	_ = trap.Release(t.Context()) // The server may have closed that connection, which is as good.
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if h, err := other.Inspect(t.Context(), "job"); err != nil || !h.Free() {
			t.Fatalf("Inspect = %+v, %v: want a free key", h, err)
		}
	}
	acquired(t, other, request("job", time.Second))
}

func TestBackend_Abandon_SpendsTheTokenAlsoWhereALeaseIsOver(t *testing.T) {
	server := testserver.ZooKeeper(t)
	b := open(t, server.Addr(), &zkleader.Options{Root: root(t)})
	const ttl = 200 * time.Millisecond
	old := acquired(t, b, request("job", ttl))
	time.Sleep(2 * ttl)
	req := request("job", 10*time.Second)
	if err := b.Abandon(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryAcquire(t.Context(), req); !errors.Is(err, backend.ErrLost) {
		t.Errorf("TryAcquire of what was abandoned: %v, want ErrLost", err)
	}
	if err := old.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew of the lease that was over: %v, want ErrLost", err)
	}
	acquired(t, b, request("job", 10*time.Second))
}

func TestBackend_TryAcquire_RepeatedInAnotherSessionMovesTheNode(t *testing.T) {
	server := ownServer(t)
	a, b := open(t, server.Addr(), nil), open(t, server.Addr(), nil)
	req := request("job", 10*time.Second)
	first := acquired(t, a, req)
	second := acquired(t, b, req)
	if first.Fence() != second.Fence() {
		t.Errorf("fences %d and %d, want one", first.Fence(), second.Fence())
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one node is left", func() bool { return counted(t, server, "zk_ephemerals_count") == 1 })
	if err := second.Renew(t.Context(), req.TTL); err != nil {
		t.Errorf("Renew: %v: the node went with the first session", err)
	}
}

func TestBackend_TryAcquire_TakesAKeyThatNobodyRenewsFromALivingSession(t *testing.T) {
	server := ownServer(t)
	opts := &zkleader.Options{SessionTimeout: time.Minute}
	a, b := open(t, server.Addr(), opts), open(t, server.Addr(), opts)
	const ttl = time.Second
	sent := time.Now()
	old := acquired(t, a, request("job", ttl))
	told := lost(t, old)
	time.Sleep(2 * watchedAfter)
	var next backend.Lease
	eventually(t, "the key can be had", func() bool {
		var err error
		next, err = b.TryAcquire(t.Context(), request("job", time.Minute))
		return err == nil
	})
	if took := time.Since(sent); took < ttl {
		t.Errorf("had after %v, before the lease of %v was over", took, ttl)
	}
	closes(t, told, patience)
	if err := old.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew: %v, want ErrLost", err)
	}
	if err := old.Release(t.Context(), ttl); err != nil {
		t.Errorf("Release: %v", err)
	}
	if n := counted(t, server, "zk_ephemerals_count"); n != 1 {
		t.Errorf("%d ephemeral nodes, want that of the successor", n)
	}
	if err := next.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew of the successor: %v", err)
	}
}

// watchedAfter is the age at which a lease is watched.
const watchedAfter = 100 * time.Millisecond

// A node that is deleted and made anew has its old versions again.
func TestLease_OfADeletedNodeHarmsNoSuccessorAtTheSameVersion(t *testing.T) {
	server := testserver.ZooKeeper(t)
	opts := &zkleader.Options{Root: root(t)}
	a, b := open(t, server.Addr(), opts), open(t, server.Addr(), opts)
	client := connect(t, server.Addr())
	old := acquired(t, a, request("job", 10*time.Second))
	deleteAll(t, client, root(t)+"/job")
	next := acquired(t, b, request("job", 10*time.Second))
	if next.Fence() <= old.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), old.Fence())
	}
	if err := old.Renew(t.Context(), 10*time.Second); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew of the old lease: %v, want ErrLost", err)
	}
	if err := old.Release(t.Context(), time.Second); err != nil {
		t.Errorf("Release of the old lease: %v", err)
	}
	if err := next.Renew(t.Context(), 10*time.Second); err != nil {
		t.Errorf("Renew of the new lease: %v", err)
	}
}

func TestBackend_TryAcquire_OfADeletedNodeHarmsNoHolderAtTheSameVersion(t *testing.T) {
	server := testserver.ZooKeeper(t)
	opts := &zkleader.Options{Root: root(t)}
	a, b := open(t, server.Addr(), opts), open(t, server.Addr(), opts)
	client := connect(t, server.Addr())
	free := acquired(t, a, request("job", 10*time.Second))
	if err := free.Release(t.Context(), 0); err != nil { // version 2, known to be free
		t.Fatal(err)
	}
	deleteAll(t, client, root(t)+"/job")
	held := acquired(t, b, request("job", 10*time.Second)) // version 1
	if err := held.Renew(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	l, err := a.TryAcquire(t.Context(), request("job", 10*time.Second))
	if !errors.Is(err, backend.ErrHeld) {
		t.Errorf("TryAcquire of a key that is held: lease %v, %v, want ErrHeld", l, err)
	}
	// The record of the holder is gone, but nobody gets the key while it may still trust its lease.
	if h, err := a.Inspect(t.Context(), "job"); err != nil || h.Remaining < 9*time.Second {
		t.Errorf("Inspect = %+v, %v: want a key that is not free for the longest lease", h, err)
	}
}

func TestLease_Release_KeepsTheKeyForAProcessThatComesLater(t *testing.T) {
	server := testserver.ZooKeeper(t)
	opts := &zkleader.Options{Root: root(t)}
	a := zkleader.New([]string{server.Addr()}, opts)
	const keep = 1500 * time.Millisecond
	l := acquired(t, a, request("job", 10*time.Second))
	sent := time.Now()
	if err := l.Release(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	// Each of them has seen nothing before, and knows no time.
	for {
		b := zkleader.New([]string{server.Addr()}, opts)
		h, err := b.Inspect(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if !h.Free() && (!h.Kept || h.Remaining > keep+2*time.Millisecond) {
			t.Errorf("Inspect = %+v, want kept for at most %v", h, keep)
		}
		_, err = b.TryAcquire(t.Context(), request("job", time.Second))
		took := time.Since(sent)
		if closing := b.Close(); closing != nil {
			t.Error(closing)
		}
		if err == nil {
			if took < keep {
				t.Errorf("had after %v, want %v at least", took, keep)
			}
			break
		}
		if !errors.Is(err, backend.ErrHeld) || took > keep+patience {
			t.Fatalf("TryAcquire after %v: %v", took, err)
		}
	}
}

func TestBackend_ATermWithoutANodeNeverBlocksForEver(t *testing.T) {
	server := testserver.ZooKeeper(t)
	client := connect(t, server.Addr())
	path := root(t) + "/job"
	writeAll(t, client, path, `{"format":1,"token":"somebody","owner":"gone","ttl":700,"session":1}`)
	for range 2 { // a process that has seen nothing, each time
		b := open(t, server.Addr(), &zkleader.Options{Root: root(t)})
		_, err := b.TryAcquire(t.Context(), request("job", time.Second))
		if err == nil {
			return
		}
		if !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	t.Error("a term that has no node, and whose time has passed, still blocks")
}

func TestBackend_StrayNodesChangeNothing(t *testing.T) {
	server := testserver.ZooKeeper(t)
	client := connect(t, server.Addr())
	top := root(t)
	opts := &zkleader.Options{Root: top}
	a, b := open(t, server.Addr(), opts), open(t, server.Addr(), opts)
	for _, stray := range []string{
		"/job/lock-0000000001", "/job/term-0000", "/other/x", "/a%zz", "/%2f", "/job!candidate/stray", "/empty",
	} {
		writeAll(t, client, top+stray, "")
	}
	writeAll(t, client, top+"/foreign", "a text")
	if h, err := b.Inspect(t.Context(), "job"); err != nil || !h.Free() {
		t.Errorf("Inspect = %+v, %v: want a free key", h, err)
	}
	l := acquired(t, a, request("job", 10*time.Second))
	writeAll(t, client, top+"/job/later", "x")
	refused(t, b, request("job", time.Second))
	if err := l.Renew(t.Context(), 10*time.Second); err != nil {
		t.Errorf("Renew: %v", err)
	}
	for e, err := range b.List(t.Context(), "", true) {
		if err != nil || e.Key != "job" || e.Fence != l.Fence() {
			t.Errorf("List yields %+v, %v", e, err)
		}
	}
	if err := l.Release(t.Context(), 0); err != nil {
		t.Errorf("Release: %v", err)
	}
	acquired(t, b, request("job", time.Second))
	acquired(t, b, request("empty", time.Second))
	r := backend.Record{Key: "job!candidate/web-1", Value: []byte("x")}
	if _, err := b.PutRecord(t.Context(), r); err != nil {
		t.Errorf("PutRecord: %v", err)
	}
	if list, _, err := a.GetRecords(t.Context(), "job!candidate/"); err != nil || len(list) != 1 || list[0].Key != r.Key {
		t.Errorf("GetRecords = %v, %v", list, err)
	}
}

func TestLease_Lost_IsNotMisledByAWriteToItsNode(t *testing.T) {
	server := testserver.ZooKeeper(t)
	client := connect(t, server.Addr())
	b := open(t, server.Addr(), &zkleader.Options{Root: root(t)})
	l := acquired(t, b, request("job", 10*time.Second))
	told := lost(t, l)
	time.Sleep(3 * watchedAfter)
	path := root(t) + "/job"
	children, _, err := client.Children(path)
	if err != nil || len(children) != 1 {
		t.Fatal(children, err)
	}
	path += "/" + children[0]
	if _, err := client.Set(path, []byte("touched"), -1); err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(t.Context(), 10*time.Second); err != nil {
		t.Errorf("Renew: %v", err)
	}
	time.Sleep(3 * watchedAfter)
	select {
	case <-told:
		t.Error("a write to the node of the term is taken for a loss")
	default:
	}
	if err := client.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	closes(t, told, patience)
}

func TestBackend_KeepsFieldsThatItDoesNotKnow(t *testing.T) {
	server := testserver.ZooKeeper(t)
	client := connect(t, server.Addr())
	b := open(t, server.Addr(), &zkleader.Options{Root: root(t)})
	path := root(t) + "/job"
	writeAll(t, client, path, `{"color":{"deep":[1,2]},"format":1}`)
	check := func() {
		t.Helper()
		data, _, err := client.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil || string(fields["color"]) != `{"deep":[1,2]}` {
			t.Errorf("the record is %s", data)
		}
	}
	l := acquired(t, b, request("job", 10*time.Second))
	check()
	if err := l.Renew(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	check()
	if err := l.Release(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	check()
	if err := b.Abandon(t.Context(), request("job", time.Second)); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestBackend_PutRecord_SetsTheTTLAnew(t *testing.T) {
	server := testserver.ZooKeeper(t)
	b := open(t, server.Addr(), &zkleader.Options{Root: root(t)})
	const short, long = 500 * time.Millisecond, time.Hour
	for name, ttls := range map[string][2]time.Duration{
		"longer": {short, long}, "shorter": {long, short}, "endless": {short, 0}, "ending": {0, short},
	} {
		r := backend.Record{Key: "job!candidate/" + name, Value: []byte(name)}
		for _, r.TTL = range ttls {
			var err error
			if r.Version, err = b.PutRecord(t.Context(), r); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	eventually(t, "two of them have expired", func() bool {
		list, _, err := b.GetRecords(t.Context(), "job!candidate/")
		return err == nil && len(list) == 2
	})
	time.Sleep(2 * short)
	list, _, err := b.GetRecords(t.Context(), "job!candidate/")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		left := map[string]time.Duration{"longer": long, "endless": 0}
		if want, ok := left[string(r.Value)]; !ok || r.TTL > want || r.TTL < want-time.Minute {
			t.Errorf("%s has %v left", r.Key, r.TTL)
		}
	}
	client := connect(t, server.Addr())
	eventually(t, "expired records are deleted", func() bool {
		children, _, err := client.Children(root(t) + "/job!candidate")
		return err == nil && len(children) == 2
	})
}

func TestBackend_WorksBelowAChroot_WithADigest(t *testing.T) {
	server := testserver.ZooKeeper(t)
	client := connect(t, server.Addr())
	top := root(t)
	if err := client.AddAuth("digest", []byte("app:secret")); err != nil {
		t.Fatal(err)
	}
	closed := zk.DigestACL(zk.PermAll, "app", "secret")
	if _, err := client.Create(top, nil, 0, closed); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteAll(t, client, top) })
	deep := top + "/apps/one"
	auth := []zkleader.Auth{{Scheme: "digest", Credential: "app:secret"}}
	b := open(t, server.Addr(), &zkleader.Options{Root: deep, Auth: auth})
	l := acquired(t, b, request("job", 10*time.Second))
	acl, _, err := client.GetACL(deep + "/job")
	if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || !strings.HasPrefix(acl[0].ID, "app:") {
		t.Errorf("the node has the permissions %v, %v", acl, err)
	}
	for name, credentials := range map[string][]zkleader.Auth{
		"nobody": nil, "another": {{Scheme: "digest", Credential: "app:wrong-secret"}},
	} {
		other := open(t, server.Addr(), &zkleader.Options{Root: deep, Auth: credentials})
		for what, call := range map[string]func() error{
			"Inspect":    func() error { _, err := other.Inspect(t.Context(), "job"); return err },
			"TryAcquire": func() error { _, err := other.TryAcquire(t.Context(), request("new", time.Second)); return err },
		} {
			err := call()
			if backend.KindOf(err) != backend.Denied || !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("%s by %s: %v of kind %v, want Denied", what, name, err, backend.KindOf(err))
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s by %s: a secret is in the text %q", what, name, err)
			}
		}
	}
	if err := l.Release(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

func TestBackend_AnUnknownAuthenticationIsDenied(t *testing.T) {
	server := testserver.ZooKeeper(t)
	b := open(t, server.Addr(), &zkleader.Options{Auth: []zkleader.Auth{{Scheme: "unheard-of", Credential: "x"}}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.Inspect(ctx, "job"); backend.KindOf(err) != backend.Denied {
		t.Errorf("Inspect: %v of kind %v, want Denied", err, backend.KindOf(err))
	}
}

func TestBackend_Advise_WarnsOfAnotherSessionTimeout(t *testing.T) {
	t.Setenv(testserver.ZooKeeperAddrEnv, "")
	server := ownServer(t, testserver.ZooKeeperConfig("minSessionTimeout=2000", "maxSessionTimeout=8000"))
	for timeout, want := range map[time.Duration]string{
		5 * time.Second: "", time.Second: "2s instead of 1s", 10 * time.Second: "8s instead of 10s",
	} {
		b := open(t, server.Addr(), &zkleader.Options{SessionTimeout: timeout})
		list, err := b.Advise(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(list, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%v: advice %q, want %q", timeout, got, want)
		}
	}
}
