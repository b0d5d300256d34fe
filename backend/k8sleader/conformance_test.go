package k8sleader_test

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/k8sleader"
	"github.com/goleader/leader/internal/testserver"
)

// store is the newest store that the suite opened: a namespace on the one server, and a proxy for each client.
type store struct {
	server *testserver.KubeServer

	mu      sync.Mutex
	cluster *cluster
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.Kube(t)
	s := &store{server: server}
	c := backendtest.Config{
		Open:      s.open,
		Fidelity:  backendtest.Real,
		Partition: s.partition,
		Corrupt:   s.corrupt,
	}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	c := newCluster(t, s.server)
	host, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxy, err := netfault.Listen(t.Context(), host.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		proxies[i] = proxy
		drivers[i] = c.openWith(t, through(c.config, proxy.Addr()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster, s.proxies = c, proxies
	return drivers
}

func (s *store) partition(_ testing.TB, i int) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies[i].Freeze()
	return s.proxies[i].Thaw
}

func (s *store) corrupt(t testing.TB, key string, how backendtest.Damage) {
	t.Helper()
	s.mu.Lock()
	c := s.cluster
	s.mu.Unlock()
	name := k8sleader.ObjectName(key)
	var change map[string]string
	switch how {
	case backendtest.Deleted:
		err := c.leases.Delete(t.Context(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return
	case backendtest.Garbled:
		change = map[string]string{"format": "1", "fence": "many"}
	case backendtest.WrongType:
		t.Skip("skipped: a Lease of another application is a foreign holder, which has tests of its own")
	case backendtest.NewerMajor:
		change = map[string]string{"format": "2"}
	}
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.leases.Create(t.Context(), object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	c.edit(t, name, func(lease *coordinationv1.Lease) {
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		for note, value := range change {
			lease.Annotations["goleader.github.io/"+note] = value
		}
		if strings.Contains(key, "!") {
			t.Fatalf("%q is a record", key)
		}
	})
}
