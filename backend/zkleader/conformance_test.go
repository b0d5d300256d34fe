package zkleader_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/internal/testserver"
)

// store is the newest store that the suite opened: a root on the one server, and a proxy for each client.
type store struct {
	server *testserver.Server
	client *zk.Conn

	mu      sync.Mutex
	root    string
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.ZooKeeper(t)
	s := &store{server: server, client: connect(t, server.Addr())}
	c := backendtest.Config{Open: s.open, Fidelity: backendtest.Real, Partition: s.partition, Corrupt: s.corrupt}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	// The case waits for Limits.Late, and wants a record to be there whose TTL is no longer than Limits.MaxTTL.
	c.Skip = map[string]string{"Records_SetTheTTLAnew": "TestBackend_PutRecord_SetsTheTTLAnew does it in less time"}
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	root := "/leader-" + rand.Text()
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxy, err := netfault.Listen(t.Context(), s.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		proxies[i] = proxy
		drivers[i] = open(t, proxy.Addr(), &zkleader.Options{Root: root, SessionTimeout: 30 * time.Second})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root, s.proxies = root, proxies
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
	path := s.root
	s.mu.Unlock()
	set, id, ofSet := strings.Cut(key, "/")
	path += "/" + set
	if ofSet {
		path += "/" + id
	}
	if how == backendtest.Deleted {
		deleteAll(t, s.client, path)
		return
	}
	data := map[backendtest.Damage]string{
		backendtest.Garbled:    `{"format":1,"token":`,
		backendtest.WrongType:  "a text of somebody else",
		backendtest.NewerMajor: `{"format":2,"holder":"somebody"}`,
	}[how]
	writeAll(t, s.client, path, data)
}

// deleteAll deletes a node and what is below it, as an operator would.
func deleteAll(t testing.TB, c *zk.Conn, path string) {
	t.Helper()
	children, _, err := c.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		deleteAll(t, c, path+"/"+child)
	}
	if err := c.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
}

// writeAll writes a node, and creates it and those above it where they are missing.
func writeAll(t testing.TB, c *zk.Conn, path, data string) {
	t.Helper()
	for i, r := range path {
		if r != '/' || i == 0 {
			continue
		}
		if _, err := c.Create(path[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
	_, err := c.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		_, err = c.Set(path, []byte(data), -1)
	}
	if err != nil {
		t.Fatal(err)
	}
}
