package hazelcastleader

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"

	"github.com/goleader/leader/internal/testserver"
)

// Readings are shared, so that many callers do not use up the ids of which a clock is made, but nobody gets one that was
// under way before.
func TestClock_IsReadOnceForAllWhoAskMeanwhile(t *testing.T) {
	var config hazelcast.Config
	config.Logger.Level = logger.OffLevel
	config.Cluster.Network.Addresses = []string{testserver.Hazelcast(t).Addr()}
	Configure(&config)
	client, err := hazelcast.StartNewClientWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Shutdown(context.WithoutCancel(t.Context())) })
	b := New(client, nil)
	defer b.Close()
	const callers = 200
	for range 5 {
		before, err := b.now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		readings := make(map[instant]int)
		var mu sync.Mutex
		var asking sync.WaitGroup
		for range callers {
			asking.Go(func() {
				at, err := b.now(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				readings[at]++
			})
		}
		asking.Wait()
		for at, n := range readings {
			if at.id <= before.id {
				t.Errorf("%d callers got %d, which was there before: %d", n, at.id, before.id)
			}
		}
		if len(readings) > callers/2 {
			t.Errorf("%d callers took %d readings", callers, len(readings))
		}
	}
}

func TestClocks_AreForgottenWithTheirClients(t *testing.T) {
	key := func() weak.Pointer[hazelcast.Client] {
		client := new(hazelcast.Client)
		own := clockOf(client)
		if again, other := clockOf(client), clockOf(new(hazelcast.Client)); again != own || other == own {
			t.Error("a client does not have one clock of its own")
		}
		return weak.Make(client)
	}()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, ok := clocks.Load(key); !ok {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the clock of a client that is gone is kept")
		}
		runtime.GC()
	}
}
