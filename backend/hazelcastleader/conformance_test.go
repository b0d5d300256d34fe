package hazelcastleader_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/internal/testserver"
)

// store is the newest store that the suite opened: a map of the one cluster, and a proxy for each client.
type store struct {
	members  []*testserver.Server
	client   *hazelcast.Client
	restarts int

	mu      sync.Mutex
	name    string
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	s := new(store)
	c := backendtest.Config{
		Open: s.open, Fidelity: backendtest.Real, TTL: time.Second, Partition: s.partition, Corrupt: s.corrupt,
	}
	if os.Getenv(testserver.HazelcastAddrEnv) != "" {
		s.members = []*testserver.Server{testserver.Hazelcast(t)}
	} else {
		s.members = two(t).Members()
		c.Restart = s.restart
	}
	s.client = connect(t, s.members[0].Addr())
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	name := fresh()
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxies[i] = behind(t, s.members[0].Addr())
		client := connectThrough(t, proxies[i].Addr())
		drivers[i] = open(t, client, &hazelcastleader.Options{Map: name, MaxSkew: sameMachine})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.proxies = name, proxies
	return drivers
}

func (s *store) partition(_ testing.TB, i int) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies[i].Freeze()
	return s.proxies[i].Thaw
}

// restart kills one of the members, the one and the other in turn, and restarts it. Meanwhile the proxies make new
// connections wait. They would accept and reset them, after which this client may hang for ever; see the package comment.
func (s *store) restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.proxies {
		p.Freeze()
	}
	s.members[s.restarts%len(s.members)].Restart(t)
	s.restarts++
	for _, p := range s.proxies {
		p.Thaw()
	}
}

func (s *store) corrupt(t testing.TB, key string, how backendtest.Damage) {
	t.Helper()
	s.mu.Lock()
	name := s.name
	s.mu.Unlock()
	if strings.Contains(key, "!") {
		name += "_records"
	}
	m, err := s.client.GetMap(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	switch how {
	case backendtest.Deleted:
		err = m.Delete(t.Context(), key)
	case backendtest.Garbled:
		err = m.Set(t.Context(), key, `{"format":1,"fence":"many`)
	case backendtest.WrongType:
		err = m.Set(t.Context(), key, int64(7))
	case backendtest.NewerMajor:
		err = m.Set(t.Context(), key, `{"format":2,"holder":"somebody"}`)
	}
	if err != nil {
		t.Fatal(err)
	}
}
