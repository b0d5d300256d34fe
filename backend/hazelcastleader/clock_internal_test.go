package hazelcastleader

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/hazelcast/hazelcast-go-client"
)

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
