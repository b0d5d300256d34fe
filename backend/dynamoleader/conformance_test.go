package dynamoleader_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/dynamoleader"
	"github.com/goleader/leader/internal/testserver"
)

// store is the newest store that the suite opened: a table on the one server, and a proxy for each client.
type store struct {
	server *testserver.Server

	mu      sync.Mutex
	table   *table
	proxies []*netfault.Proxy
}

func TestBackend_Conformance(t *testing.T) {
	server := testserver.Dynamo(t)
	s := &store{server: server}
	c := backendtest.Config{
		Open: s.open, Fidelity: fidelity(server), TTL: time.Second, Partition: s.partition, Corrupt: s.corrupt,
	}
	if server.Owned() {
		c.Restart = func(t testing.TB) { server.Restart(t) }
	}
	backendtest.Run(t, c)
}

func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	name := makeTable(t, s.server)
	drivers := make([]backend.Driver, n)
	proxies := make([]*netfault.Proxy, n)
	for i := range n {
		proxies[i] = behind(t, s.server)
		url := strings.Replace(s.server.URL(), s.server.Addr(), proxies[i].Addr(), 1)
		var change func(o *dynamodb.Options)
		if i%2 == 1 && s.server.Owned() {
			change = telling(t) // as the real service does
		}
		drivers[i] = dynamoleader.New(client(t, url, change), &dynamoleader.Options{Table: name})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = &table{server: s.server, name: name, client: client(t, s.server.URL(), nil)}
	s.proxies = proxies
	return drivers
}

// behind returns a proxy before a server.
func behind(t testing.TB, server *testserver.Server) *netfault.Proxy {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// began is the instant, by this machine's clock, that the fence in an item stands for; zero for a record.
func (s *table) began(t testing.TB, name, part string) time.Time {
	t.Helper()
	item := s.stored(t, name, part)
	switch {
	case item["fence"] == nil:
		return time.Time{}
	case !s.server.Owned():
		return time.Now() // The clocks of this machine and of the service differ.
	}
	return time.UnixMicro(number(t, item, "fence"))
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
	table := s.table
	s.mu.Unlock()
	name, part := dynamoleader.LeasePlace(key)
	field := "fence"
	if strings.Contains(key, "!") {
		name, part = dynamoleader.RecordPlace(key)
		field = "value"
	}
	switch how {
	case backendtest.Deleted:
		began := table.began(t, name, part)
		table.remove(t, name, part)
		// The service tells whole seconds, which a new item's fence begins at; the rest is for its answer's way.
		time.Sleep(time.Until(began.Add(time.Second + 600*time.Millisecond)))
	case backendtest.Garbled:
		table.set(t, name, part, "format", &types.AttributeValueMemberN{Value: "1"})
		table.set(t, name, part, field, &types.AttributeValueMemberSS{Value: []string{"many"}})
	case backendtest.WrongType:
		table.remove(t, name, part)
		table.set(t, name, part, "of", &types.AttributeValueMemberS{Value: "another application"})
	case backendtest.NewerMajor:
		table.set(t, name, part, "format", &types.AttributeValueMemberN{Value: "2"})
	}
}
