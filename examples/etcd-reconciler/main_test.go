package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/etcdleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

func TestEtcdReconciler_TheLeaderIsKilled_AnotherReconcilesWhatChangedMeanwhile(t *testing.T) {
	s := newStore(t)
	replicas := make(map[string]*exampletest.Process)
	program := exampletest.Build(t)
	for _, id := range []string{"a", "b", "c"} {
		replicas[id] = exampletest.Start(t, program, "-etcd", s.url, "-name", s.name, "-node", id, "-lives", "2m")
	}
	s.want("web", 3)
	s.want("db", 1)
	s.awaitActual("db-0", "web-0", "web-1", "web-2")
	first := s.actual()["web-0"]
	for _, p := range replicas {
		p.Await(t, fmt.Sprintf(`sees %s lead, fence %d\n`, first.node, first.fence))
	}

	// What is not as it should be is put right, whoever has changed it.
	s.drop("web-1")
	s.awaitActual("db-0", "web-0", "web-1", "web-2")

	dead := s.actual()["web-1"]
	replicas[dead.node].Kill(t)
	delete(replicas, dead.node)
	s.want("web", 2)
	s.want("cache", 1)
	s.awaitActual("cache-0", "db-0", "web-0", "web-1")

	next := s.actual()["cache-0"]
	if next.node == dead.node || next.fence <= dead.fence {
		t.Errorf("%s went on with fence %d, after %s had %d", next.node, next.fence, dead.node, dead.fence)
	}
	for _, p := range replicas {
		p.Await(t, fmt.Sprintf(`sees %s lead, fence %d\n`, next.node, next.fence))
	}
}

func TestReconciler_Reconcile_UnderALeaseThatIsOver_WritesNothing(t *testing.T) {
	s := newStore(t)
	b := etcdleader.New(s.client, nil)
	defer b.Close()
	elector, err := leader.New(b, leader.WithLeaseTime(watchdog))
	if err != nil {
		t.Fatal(err)
	}
	s.want("web", 1)
	r := reconciler{s.client, b, s.name}
	held, err := elector.Acquire(t.Context(), s.name, leader.WithWaitTime(watchdog)) // it tries again
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.reconcile(t.Context(), held); err != nil {
		t.Errorf("under a lease: %v", err)
	}
	s.awaitActual("web-0")
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want("web", 2)
	if _, err := r.reconcile(t.Context(), held); !errors.Is(err, errStale) {
		t.Errorf("under a lease that is over: %v, want %v", err, errStale)
	}
	s.awaitActual("web-0")
}

// store is an etcd, and the keys of one controller in it.
type store struct {
	t      *testing.T
	url    string
	name   string
	client *clientv3.Client
}

func newStore(t *testing.T) store {
	t.Helper()
	url := testserver.Etcd(t).URL()
	client, err := connect(url)
	if err != nil {
		t.Fatal(err)
	}
	s := store{t, url, fmt.Sprintf("test-%d", time.Now().UnixNano()), client} // the server may be one that lives on
	t.Cleanup(func() {
		_, err := client.Delete(context.WithoutCancel(t.Context()), s.name+"/", clientv3.WithPrefix())
		if err := errors.Join(err, client.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s store) want(service string, n int) {
	s.t.Helper()
	if _, err := s.client.Put(s.t.Context(), s.name+"/desired/"+service, strconv.Itoa(n)); err != nil {
		s.t.Fatal(err)
	}
}

func (s store) drop(instance string) {
	s.t.Helper()
	if answer, err := s.client.Delete(s.t.Context(), s.name+"/actual/"+instance); err != nil || answer.Deleted != 1 {
		s.t.Fatalf("delete %s: %+v, %v", instance, answer, err)
	}
}

// instance tells who made it.
type instance struct {
	node  string
	fence uint64
}

func (s store) actual() map[string]instance {
	s.t.Helper()
	answer, err := s.client.Get(s.t.Context(), s.name+"/actual/", clientv3.WithPrefix())
	if err != nil {
		s.t.Fatal(err)
	}
	all := make(map[string]instance)
	for _, kv := range answer.Kvs {
		var made instance
		if _, err := fmt.Sscan(string(kv.Value), &made.node, &made.fence); err != nil {
			s.t.Fatalf("%s: %q: %v", kv.Key, kv.Value, err)
		}
		all[strings.TrimPrefix(string(kv.Key), s.name+"/actual/")] = made
	}
	return all
}

// awaitActual waits until there are exactly these instances.
func (s store) awaitActual(want ...string) {
	s.t.Helper()
	var got []string
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got = slices.Sorted(maps.Keys(s.actual())); slices.Equal(got, want) {
			return
		}
	}
	s.t.Fatalf("the instances are %v, want %v", got, want)
}
