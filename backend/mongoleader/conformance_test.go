package mongoleader_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/testserver"
)

// store is the newest store that the suite opened: a database on the one server, and a proxy for each client.
type store struct {
	server *testserver.Server
	client *mongo.Client

	mu      sync.Mutex
	db      *mongo.Database
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.Mongo(t)
	s := &store{server: server, client: connect(t, server)}
	c := backendtest.Config{Open: s.open, Fidelity: fidelity(server), Partition: s.partition, Corrupt: s.corrupt}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	backendtest.Run(t, c)
}

// hasChangeStreams reports whether waiters can wait on the server.
func hasChangeStreams(t testing.TB, server *testserver.Server, client *mongo.Client) bool {
	t.Helper()
	b := open(t, database(t, server, client), nil)
	win(t, b, request("a", long))
	return !errors.Is(b.AwaitRelease(t.Context(), "a", ""), errors.ErrUnsupported)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	db := database(t, s.server, s.client)
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxy, err := netfault.Listen(t.Context(), s.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		proxies[i] = proxy
		client := connectTo(t, s.server, proxy.Addr())
		drivers[i] = open(t, client.Database(db.Name()), nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.proxies = db, proxies
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
	name := s.db.Name()
	s.mu.Unlock()
	db := connect(t, s.server).Database(name) // whose connections are none from before a restart
	in, field := db.Collection(mongoleader.DefaultCollection), "fence"
	if strings.Contains(key, "!") {
		in, field = db.Collection(mongoleader.DefaultCollection+"_records"), "value"
	}
	var err error
	upsert := options.UpdateOne().SetUpsert(true)
	switch how {
	case backendtest.Deleted:
		_, err = in.DeleteOne(t.Context(), doc("_id", key))
	case backendtest.Garbled:
		_, err = in.UpdateOne(t.Context(), doc("_id", key), doc("$set", doc("format", 1, field, "many")), upsert)
	case backendtest.WrongType:
		other := doc("_id", key, "of", "another application", "at", time.Now())
		_, err = in.ReplaceOne(t.Context(), doc("_id", key), other, options.Replace().SetUpsert(true))
	case backendtest.NewerMajor:
		_, err = in.UpdateOne(t.Context(), doc("_id", key), doc("$set", doc("format", 2)), upsert)
	}
	if err != nil {
		t.Fatal(err)
	}
}
