package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/k8sleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

func TestK8sOperator_TheLeaderIsKilledAndTheNextOneAskedToGo_OthersGoOn(t *testing.T) {
	c := newCluster(t)
	program := exampletest.Build(t)
	replicas := make(map[string]*exampletest.Process)
	for _, id := range []string{"a", "b", "c"} {
		replicas[id] = exampletest.Start(t, program, "-kubeconfig", c.config, "-namespace", c.namespace, "-node", id,
			"-lease", "4s", "-lives", "2m")
	}
	for _, p := range replicas {
		p.Await(t, `is ready\n`) // a warm standby
	}
	c.create("one", "Ada")
	first := c.await("one", "Hello, Ada!")

	replicas[first.node].Kill(t)
	delete(replicas, first.node)
	c.create("two", "Grace")
	c.rename("one", "Edsger")
	second := c.await("two", "Hello, Grace!")
	c.checkAfter("one", c.await("one", "Hello, Edsger!"), first)
	c.checkAfter("two", second, first)
	if runtime.GOOS == "windows" {
		return // no process can be asked to go there
	}

	leaving := replicas[second.node]
	delete(replicas, second.node)
	leaving.Interrupt(t)
	if code := leaving.Wait(t); code != 0 {
		t.Errorf("the replica that was asked to go ended with %d", code)
	}
	leaving.Await(t, `leads no longer: `)
	c.rename("two", "Barbara")
	c.checkAfter("two", c.await("two", "Hello, Barbara!"), second)
	if _, left := replicas[second.node]; left || len(replicas) != 1 {
		t.Errorf("%d replicas are left, want one", len(replicas))
	}
}

func TestOperator_Reconcile_RefusesAFormerLeaderAndAnOldCache(t *testing.T) {
	c := newCluster(t)
	b := k8sleader.New(c.client.CoordinationV1(), &k8sleader.Options{Namespace: c.namespace})
	defer b.Close()
	elector, err := leader.New(b)
	if err != nil {
		t.Fatal(err)
	}
	acquire := func() *leader.Lease {
		l, err := elector.Acquire(t.Context(), name, leader.WithWaitTime(watchdog)) // it tries again
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	former, later := acquire(), acquire()

	c.create("one", "Ada")
	factory := informers.NewSharedInformerFactory(c.client, 0) // it is not started: the test fills the cache
	o := newOperator(c.client, c.namespace, factory)
	old := c.get("one")
	cached := func(object *core.ConfigMap) {
		if err := o.informer.GetStore().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	cached(old)
	if err := o.reconcile(t.Context(), later, "one"); err != nil {
		t.Fatalf("the leader: %v", err)
	}
	if err := o.reconcile(t.Context(), former, "one"); !apierrors.IsConflict(err) {
		t.Errorf("the former leader with an old cache: %v, want a conflict", err)
	}
	c.rename("one", "Grace")
	cached(c.get("one"))
	if err := o.reconcile(t.Context(), former, "one"); !errors.Is(err, errStale) {
		t.Errorf("the former leader with a new cache: %v, want %v", err, errStale)
	}
	if err := o.reconcile(t.Context(), later, "one"); err != nil {
		t.Errorf("the leader with a new cache: %v", err)
	}
	c.await("one", "Hello, Grace!")
}

// greeter is who wrote a greeting.
type greeter struct {
	node  string
	fence uint64
}

// cluster is an API server, and a namespace of its own in it, because the server may be one that lives on.
type cluster struct {
	t         *testing.T
	config    string
	namespace string
	client    *kubernetes.Clientset
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	config := testserver.Kube(t).Config()
	client, err := connect(config)
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{t, config, fmt.Sprintf("test-%d", time.Now().UnixNano()), client}
	made := &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := client.CoreV1().Namespaces().Delete(ctx, c.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c cluster) objects() v1.ConfigMapInterface { return c.client.CoreV1().ConfigMaps(c.namespace) }

func (c cluster) create(object, name string) {
	c.t.Helper()
	m := &core.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: object, Labels: map[string]string{"example": "greeting"}},
		Data:       map[string]string{"name": name},
	}
	if _, err := c.objects().Create(c.t.Context(), m, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c cluster) get(object string) *core.ConfigMap {
	c.t.Helper()
	m, err := c.objects().Get(c.t.Context(), object, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// rename changes what an object asks for. An operator may write at the same time.
func (c cluster) rename(object, name string) {
	c.t.Helper()
	for end := time.Now().Add(watchdog); time.Now().Before(end); {
		m := c.get(object)
		m.Data["name"] = name
		_, err := c.objects().Update(c.t.Context(), m, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			c.t.Fatal(err)
		}
	}
	c.t.Fatalf("%s could not be changed", object)
}

// await waits until an object has a greeting, and returns who wrote it.
func (c cluster) await(object, greeting string) greeter {
	c.t.Helper()
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		m := c.get(object)
		if m.Data["greeting"] != greeting {
			continue
		}
		fence, err := strconv.ParseUint(m.Annotations[madeUnder], 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		return greeter{m.Annotations[madeBy], fence}
	}
	c.t.Fatalf("%s has no greeting %q", object, greeting)
	return greeter{}
}

// checkAfter fails unless another replica wrote, under a later lease.
func (c cluster) checkAfter(object string, g, last greeter) {
	c.t.Helper()
	if g.node == last.node || g.fence <= last.fence {
		c.t.Errorf("%s was greeted by %s with fence %d, after %s had %d", object, g.node, g.fence, last.node, last.fence)
	}
}
