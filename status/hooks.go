package status

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/goleader/leader"
)

// Hooks returns hooks for the electors of this process, see leader.WithHooks. They let the page show at once what this
// process does, let [Page.Health] know of renewals that fail, and tell the names where the store cannot list them.
func (p *Page) Hooks() leader.Hooks {
	h := leader.Hooks{
		Acquired: func(_ context.Context, l leader.LeaseInfo) {
			p.renewals.acquired(l)
			p.led(l)
		},
		Renewed: func(_ context.Context, l leader.LeaseInfo, took time.Duration) {
			p.renewals.renewed(l, time.Now().Add(-took))
		},
		RenewFailed: func(_ context.Context, l leader.LeaseInfo, _ error) { p.renewals.failed(l) },
		Lost: func(_ context.Context, l leader.LeaseInfo, _ error) {
			p.renewals.ended(l)
			p.soon()
		},
		Released: func(_ context.Context, l leader.LeaseInfo) {
			p.renewals.ended(l)
			p.soon()
		},
		ReleaseFailed: func(_ context.Context, l leader.LeaseInfo, _ error) { p.renewals.ended(l) },
	}
	if p.lister == nil {
		h.RunStarted = func(ctx context.Context, name string) context.Context {
			p.wanted(name)
			return ctx
		}
	}
	return h
}

// led notes that this process has a lease.
func (p *Page) led(l leader.LeaseInfo) {
	if p.lister == nil {
		p.has(l.Key)
	}
	p.soon()
}

// has makes the name of a lease known, where the store cannot list it.
func (p *Page) has(key string) {
	i, slot, ok := parse(key)
	if !ok || !p.mine(i) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i.group {
		p.board.names.dropUnused(id{i.namespace, i.name, false})
	}
	p.board.tried(i, slot)
}

// mine reports whether the page is about the namespace of a name.
func (p *Page) mine(i id) bool {
	return p.options.Namespace == "" || p.options.Namespace == i.namespace
}

// wanted notes that this process tries for a name, of which it is not known here whether it is that of a group.
func (p *Page) wanted(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.board.names[p.id(name, true)] == nil {
		p.board.tried(p.id(name, false), 0)
	}
}

// dropUnused forgets a name that was only guessed.
func (n names) dropUnused(i id) {
	if k := n[i]; k != nil && !k.pinned && k.seen.IsZero() {
		delete(n, i)
	}
}

// leaseID is a lease of this process.
type leaseID struct {
	key   string
	fence uint64
}

// renewal is how the renewals of a lease go.
type renewal struct {
	name   string
	lasts  time.Duration // the lease's time
	good   time.Time     // when the last one that succeeded, or the acquisition, was sent
	failed bool          // since then one has
}

// failingFor is for how long the renewals have failed. The first that did was due a third of the lease after the last
// good one; when it is known to have failed depends on how long it was waited for.
func (r *renewal) failingFor(now time.Time) time.Duration {
	if !r.failed {
		return 0
	}
	return now.Sub(r.good) - r.lasts/3
}

// renewals are those of the leases of this process.
type renewals struct {
	mu     sync.Mutex
	leases map[leaseID]*renewal
}

func (r *renewals) acquired(l leader.LeaseInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[leaseID{l.Key, l.Fence}] = &renewal{name: l.Name, lasts: l.Lasts, good: l.Acquired}
}

func (r *renewals) ended(l leader.LeaseInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, leaseID{l.Key, l.Fence})
}

func (r *renewals) renewed(l leader.LeaseInfo, sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.leases[leaseID{l.Key, l.Fence}]; s != nil {
		s.good, s.failed = sent, false
	}
}

func (r *renewals) failed(l leader.LeaseInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.leases[leaseID{l.Key, l.Fence}]; s != nil {
		s.failed = true
	}
}

// failing lists the leases whose renewals have been failing for over a third of the lease's time.
func (r *renewals) failing(now time.Time) (list []failingLease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.leases {
		if d := s.failingFor(now); d > s.lasts/3 {
			list = append(list, failingLease{Name: printable(s.name), Fence: fence(i.fence), For: seconds(d)})
		}
	}
	slices.SortFunc(list, func(x, y failingLease) int { return cmp.Compare(y.For, x.For) })
	return list
}
