package k8sleader_test

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/k8sleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// patience is the watchdog of every wait in these tests.
	patience = 20 * time.Second
	// brief is a TTL that tests let end; long one that they do not outlive.
	brief = time.Second
	long  = 10 * time.Minute
)

// configOf loads a kubeconfig for clients that are not held up.
func configOf(t testing.TB, path string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// through is config for a server that is reached at another address.
func through(config *rest.Config, addr string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + addr
	return config
}

func clientOf(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	// A client shares its connections with all that have the same configuration, except with a dialer of its own.
	config = rest.CopyConfig(config)
	config.Dial = dialer()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIdle(client) })
	return client
}

// newNamespace makes an empty namespace.
func newNamespace(t testing.TB, client kubernetes.Interface) string {
	t.Helper()
	namespace := "test-" + strings.ToLower(rand.Text())
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return namespace
}

// open returns a backend that ends with the test.
func open(t testing.TB, client coordination.CoordinationV1Interface, namespace string) *k8sleader.Backend {
	t.Helper()
	b := k8sleader.New(client, &k8sleader.Options{Namespace: namespace})
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// cluster is an empty namespace of a server that tests share.
type cluster struct {
	config    *rest.Config
	client    *kubernetes.Clientset
	namespace string
	leases    coordination.LeaseInterface // the raw client
}

func newCluster(t testing.TB, server *testserver.KubeServer) *cluster {
	t.Helper()
	c := &cluster{config: configOf(t, server.Config())}
	c.client = clientOf(t, c.config)
	c.namespace = newNamespace(t, c.client)
	c.leases = c.client.CoordinationV1().Leases(c.namespace)
	return c
}

// open returns a backend with a connection of its own.
func (c *cluster) open(t testing.TB) *k8sleader.Backend {
	t.Helper()
	return c.openWith(t, c.config)
}

func (c *cluster) openWith(t testing.TB, config *rest.Config) *k8sleader.Backend {
	t.Helper()
	return open(t, clientOf(t, config).CoordinationV1(), c.namespace)
}

func (c *cluster) get(t testing.TB, name string) *coordinationv1.Lease {
	t.Helper()
	lease, err := c.leases.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// edit changes a Lease as kubectl edit does.
func (c *cluster) edit(t testing.TB, name string, change func(lease *coordinationv1.Lease)) {
	t.Helper()
	eventually(t, "an edit meets no conflict", func() bool {
		lease := c.get(t, name)
		change(lease)
		_, err := c.leases.Update(t.Context(), lease, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
		return err == nil
	})
}

func request(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: ttl}
}

func win(t testing.TB, b backend.Driver, req backend.Request) backend.Lease {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", req.Key, err)
	}
	return lease
}

// holder attempts on a held key and returns what the attempt learned.
func holder(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	_, err := b.TryAcquire(t.Context(), request(key, time.Minute))
	held, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("TryAcquire(%q): %v, want a HeldError", key, err)
	}
	return held.Holder
}

func inspect(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect(%q): %v", key, err)
	}
	return h
}

func release(t testing.TB, lease backend.Lease, keep time.Duration) {
	t.Helper()
	if err := lease.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release(%v): %v", keep, err)
	}
}

func renew(t testing.TB, lease backend.Lease, ttl time.Duration) {
	t.Helper()
	if err := lease.Renew(t.Context(), ttl); err != nil {
		t.Fatalf("Renew(%v): %v", ttl, err)
	}
}

func lost(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrLost) {
		t.Errorf("%s: %v, want ErrLost", what, err)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// receive returns what comes from c, nil if it is closed.
func receive(t testing.TB, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(2 * patience):
		t.Fatalf("nothing came within %v", 2*patience)
		return nil
	}
}
