package consulleader_test

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/consulleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	nothingIsLeft = "no record outlives a lease that could tell that its token was spent; " +
		"the session of an attempt that was given up is ended instead, see TestBackend_Abandon_StopsAnAttemptThatArrivesLater"
	keyIsGone = "a key goes with its session, so nothing is left of an expired lease to be listed"
)

// store is the newest store that the suite opened: a key prefix on the one server, and a proxy for each client.
type store struct {
	server *testserver.Server
	client *api.Client

	mu      sync.Mutex
	prefix  string
	proxies []*netfault.Proxy
}

// patient tells the suite how late the longest lease is that a case lets end, which is of three TTLs. Limits.Late is
// that of the shortest.
type patient struct{ *consulleader.Backend }

func (p patient) Limits() backend.Limits {
	l := p.Backend.Limits()
	l.Late += 2 * ttl
	return l
}

// The suite runs without a lock-delay, which hides an expired key from all but Inspect; those have their own tests.
func TestBackend_Conformance(t *testing.T) {
	server := testserver.Consul(t)
	s := &store{server: server, client: connect(t, server)}
	c := backendtest.Config{
		Open: s.open, Fidelity: backendtest.Real, TTL: consulleader.MinTTL, Partition: s.partition, Corrupt: s.corrupt,
		Skip: map[string]string{
			"Repeat_AfterReleaseIsRefused":           nothingIsLeft,
			"Abandon_RefusesARepeat":                 nothingIsLeft,
			"Abandon_RefusesALateAttempt":            nothingIsLeft,
			"Abandon_RefusesALateAttemptAfterExpiry": nothingIsLeft,
			"Break_SpendsTheToken":                   nothingIsLeft,
			"Break_FreesASlot":                       nothingIsLeft,
			"Slots_RefuseASpentToken":                nothingIsLeft,
			"Slots_AbandonFreesItsOwn":               nothingIsLeft,
			"Slots_RefuseALateAttempt":               nothingIsLeft,
			"List_ShowsExpiredKeysWithAll":           keyIsGone,
		},
	}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	prefix := "leader-" + rand.Text() + "/"
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxy, err := netfault.Listen(t.Context(), s.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		proxies[i] = proxy
		client := connectTo(t, proxy.Addr(), s.server.Password())
		drivers[i] = patient{open(t, client, &consulleader.Options{Prefix: prefix, LockDelay: -1})}
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
	place := consulleader.StoreKey(s.prefix, key)
	s.mu.Unlock()
	ofSet := strings.Contains(key, "!")
	kv := s.client.KV()
	put := func(value string) {
		t.Helper()
		if _, err := kv.Put(&api.KVPair{Key: place, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() {
		t.Helper()
		if _, err := kv.Delete(place, nil); err != nil {
			t.Fatal(err)
		}
	}
	switch how {
	case backendtest.Deleted:
		remove()
	case backendtest.Garbled:
		put(`{"format":1,"token":`)
	case backendtest.WrongType:
		remove() // and with it the lock
		put("of another application")
	case backendtest.NewerMajor:
		if ofSet {
			put("2 0 0 x")
		} else {
			put(`{"format":2}`)
		}
	}
}

func transport(t testing.TB) *http.Transport {
	t.Helper()
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.MaxIdleConnsPerHost = 16
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}
