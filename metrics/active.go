package metrics

import (
	"sync"

	"github.com/goleader/leader"
)

// active are the leases that were acquired and have not ended. The zero value is ready.
type active struct {
	mu     sync.Mutex
	leases map[lease]held
}

// lease identifies a lease, but for those of electors that share a node id and have different stores.
type lease struct {
	node, key string
	slot      int
	fence     uint64
}

// held is what is active under one identity.
type held struct {
	name  string // that they are counted under
	count int
}

func leaseOf(l leader.LeaseInfo) lease { return lease{l.Node, l.Key, l.Slot, l.Fence} }

func (a *active) add(l leader.LeaseInfo, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leases == nil {
		a.leases = make(map[lease]held)
	}
	id := leaseOf(l)
	a.leases[id] = held{name, a.leases[id].count + 1}
}

// remove reports false if the lease is not active.
func (a *active) remove(l leader.LeaseInfo) (name string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := leaseOf(l)
	h, ok := a.leases[id]
	if h.count > 1 {
		a.leases[id] = held{h.name, h.count - 1}
	} else {
		delete(a.leases, id)
	}
	return h.name, ok
}
