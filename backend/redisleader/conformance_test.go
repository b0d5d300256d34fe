package redisleader_test

import (
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

// store is the newest store that the suite opened: a key prefix on the one server, and a proxy for each client.
type store struct {
	server *testserver.Server
	client *redis.Client

	mu      sync.Mutex
	prefix  string
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.Redis(t)
	s := &store{server: server, client: connect(t, server)}
	c := backendtest.Config{Open: s.open, Fidelity: backendtest.Real, Partition: s.partition, Corrupt: s.corrupt}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	prefix := "leader-" + rand.Text() + ":"
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxy, err := netfault.Listen(t.Context(), s.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		proxies[i] = proxy
		drivers[i] = open(t, connectTo(t, proxy.Addr(), s.server.Password()), &redisleader.Options{Prefix: prefix})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefix, s.proxies = prefix, proxies
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
	prefix := s.prefix
	s.mu.Unlock()
	name, set, ofSet := strings.Cut(key, "!")
	name, slot, ofGroup := strings.Cut(name, "#")
	place := prefix + "{" + name + "}"
	if ofGroup {
		place += "#" + slot
	}
	field := "fence"
	if ofSet {
		kind, id, _ := strings.Cut(set, "/")
		place, field = place+"!"+kind, "/"+id
	}
	var err error
	switch how {
	case backendtest.Deleted:
		if ofSet {
			err = s.client.HDel(t.Context(), place, field).Err()
		} else {
			err = s.client.Del(t.Context(), place).Err()
		}
	case backendtest.Garbled:
		err = s.client.HSet(t.Context(), place, "format", "1", field, "many").Err()
	case backendtest.WrongType:
		err = s.client.Set(t.Context(), place, "a string", 0).Err()
	case backendtest.NewerMajor:
		err = s.client.HSet(t.Context(), place, "format", "2").Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}
