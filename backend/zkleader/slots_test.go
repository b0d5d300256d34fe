package zkleader_test

import (
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

// Slots that come and go let each attempt see others free.
func TestBackend_TryAcquireSlot_RepeatedAtTheSameTimeHasOneSlot(t *testing.T) {
	server := ownServer(t)
	a, other := open(t, server.Addr(), nil), open(t, server.Addr(), nil)
	const slots, ttl = 4, 10 * time.Second
	over := make(chan struct{})
	var busy sync.WaitGroup
	for range slots - 1 {
		busy.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if l, _, err := other.TryAcquireSlot(t.Context(), request("job", ttl), slots); err == nil {
					_ = l.Release(t.Context(), 0) // A failure shows below.
				}
			}
		})
	}
	defer busy.Wait()
	defer close(over)
	for range 200 {
		req := request("job", ttl)
		leases, at := make([]backend.Lease, 4), make([]int, 4)
		var repeats sync.WaitGroup
		for i := range leases {
			repeats.Go(func() { leases[i], at[i], _ = a.TryAcquireSlot(t.Context(), req, slots) })
		}
		repeats.Wait()
		had := -1
		for i, l := range leases {
			switch {
			case l == nil:
				continue
			case had >= 0 && at[i] != had:
				t.Fatalf("one token has the slots %d and %d", had, at[i])
			}
			had = at[i]
			if err := l.Release(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}
