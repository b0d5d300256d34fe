package etcdleader_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

const (
	noneRemains = "no record remains of a lease that has ended, so that no token is spent; " +
		"what arrives late lasts for one lease at most (rule 3)"
	noTimeLeft = "etcd tells what remains of a lease only by a request for each"
	isDeleted  = "the server deletes the key of an expired lease"
)

// store is the newest store that the suite opened: a key prefix on the one server, and a proxy for each client.
type store struct {
	server *testserver.Server
	client *clientv3.Client

	mu      sync.Mutex
	prefix  string
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.Etcd(t)
	s := &store{server: server, client: connect(t, server)}
	c := backendtest.Config{
		Open: s.open, Fidelity: backendtest.Real, Partition: s.partition, Corrupt: s.corrupt,
		TTL: 1800 * time.Millisecond, // with the slack just 2 s, the server's minimum
		Skip: map[string]string{
			"Repeat_AfterReleaseIsRefused":           noneRemains,
			"Repeat_AfterALateReleaseIsRefused":      noneRemains,
			"Abandon_RefusesARepeat":                 noneRemains,
			"Abandon_RefusesALateAttempt":            noneRemains,
			"Abandon_RefusesALateAttemptAfterExpiry": noneRemains,
			"Break_SpendsTheToken":                   noneRemains,
			"Break_FreesAKeptKey":                    noneRemains,
			"Break_FreesASlot":                       noneRemains,
			"Slots_RefuseASpentToken":                noneRemains,
			"Slots_AbandonFreesItsOwn":               noneRemains,
			"Slots_RefuseALateAttempt":               noneRemains,
			"Slots_NameTheHolderThatEndsFirst":       noTimeLeft,
			"List_ShowsExpiredKeysWithAll":           isDeleted,
		},
	}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	name := prefix()
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		drivers[i], proxies[i] = behind(t, s.server, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefix, s.proxies = name, proxies
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
	place := s.prefix + key + "\t"
	s.mu.Unlock()
	key, value := s.at(t, place)
	var err error
	switch how {
	case backendtest.Deleted:
		_, err = s.client.Delete(t.Context(), key)
	case backendtest.Garbled:
		_, err = s.client.Put(t.Context(), key, "many")
	case backendtest.WrongType:
		t.Skip("a value of etcd has no type")
	case backendtest.NewerMajor:
		_, err = s.client.Put(t.Context(), key, strings.Replace(value, `"format":1`, `"format":2`, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// at is the key at a place and its value, or what they could be.
func (s *store) at(t testing.TB, place string) (key, value string) {
	t.Helper()
	answer, err := s.client.Get(t.Context(), place, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return place + "1a2b3c", `{"format":1}`
	}
	return string(answer.Kvs[0].Key), string(answer.Kvs[0].Value)
}
