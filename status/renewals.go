package status

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goleader/leader"
)

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

// loss is a lease that was lost because its renewals failed.
type loss struct {
	renewal

	key   string
	fence uint64
	idle  time.Time // since when nobody here tries for the name; zero while somebody does
}

// over reports whether the loss is too long ago to count. Nobody here tries to have the lease again by then.
func (l *loss) over(now time.Time) bool { return !l.idle.IsZero() && now.Sub(l.idle) > l.lasts }

// maxLosses is how many losses are remembered.
const maxLosses = 1000

// renewals are those of the leases of this process.
type renewals struct {
	mu     sync.Mutex
	leases map[leaseID]*renewal
	losses map[string]*loss // by name, of which the last counts; until the store has taken a lease of that name again
	tries  map[string]int   // runs under way, by name
}

func newRenewals() renewals {
	return renewals{leases: make(map[leaseID]*renewal), losses: make(map[string]*loss), tries: make(map[string]int)}
}

func (r *renewals) acquired(l leader.LeaseInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.losses, l.Name)
	r.leases[leaseID{l.Key, l.Fence}] = &renewal{name: l.Name, lasts: l.Lasts, good: l.Acquired}
}

func (r *renewals) ended(l leader.LeaseInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, leaseID{l.Key, l.Fence})
}

func (r *renewals) released(l leader.LeaseInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, leaseID{l.Key, l.Fence})
	delete(r.losses, l.Name)
}

// lost remembers a lease that could not be renewed: that it is over does not mean that the store is well again.
func (r *renewals) lost(l leader.LeaseInfo, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := leaseID{l.Key, l.Fence}
	s := r.leases[i]
	delete(r.leases, i)
	if s == nil || !s.failed || !errors.Is(cause, leader.ErrExpired) {
		return
	}
	if len(r.losses) >= maxLosses {
		r.forget(time.Now())
	}
	if len(r.losses) < maxLosses {
		r.losses[l.Name] = &loss{renewal: *s, key: l.Key, fence: l.Fence, idle: r.idleNow(l.Name)}
	}
}

// forget forgets losses that no longer count; mu is held.
func (r *renewals) forget(now time.Time) {
	maps.DeleteFunc(r.losses, func(_ string, l *loss) bool { return l.over(now) })
}

// idleNow is the present if nobody here tries for a name, else the zero time; mu is held.
func (r *renewals) idleNow(name string) time.Time {
	if r.tries[name] > 0 {
		return time.Time{}
	}
	return time.Now()
}

func (r *renewals) renewed(l leader.LeaseInfo, sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.losses, l.Name)
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

// tried notes that a run of a name has begun.
func (r *renewals) tried(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries[name]++
	if l := r.losses[name]; l != nil {
		l.idle = time.Time{}
	}
}

// finished notes that a run of a name is over. If another node led, the store has taken its lease.
func (r *renewals) finished(name string, result leader.RunResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tries[name]--; r.tries[name] <= 0 {
		delete(r.tries, name)
	}
	switch l := r.losses[name]; {
	case l == nil:
	case result.Reason == leader.Contended:
		delete(r.losses, name)
	default:
		l.idle = r.idleNow(name)
	}
}

// lately are some of the losses, at most so many.
func (r *renewals) lately(most int) (list []loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.losses {
		if len(list) == most {
			break
		}
		list = append(list, *l)
	}
	return list
}

// superseded forgets a loss: the store has taken a lease of that name since.
func (r *renewals) superseded(lost loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.losses[lost.name]; l != nil && l.key == lost.key && l.fence == lost.fence {
		delete(r.losses, lost.name)
	}
}

// failing lists the leases whose renewals have been failing for over a third of the lease's time, also those that were
// lost by it.
func (r *renewals) failing(now time.Time) (list []failingLease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.leases {
		if s.failingFor(now) > s.lasts/3 {
			list = append(list, s.told(i.fence, now))
		}
	}
	r.forget(now)
	for _, l := range r.losses {
		list = append(list, l.told(l.fence, now))
	}
	slices.SortFunc(list, func(x, y failingLease) int {
		return cmp.Or(cmp.Compare(y.For, x.For), cmp.Compare(x.Name, y.Name))
	})
	return list
}

// told is what is shown of a lease that fails to renew.
func (r *renewal) told(f uint64, now time.Time) failingLease {
	return failingLease{Name: printable(r.name), Fence: fence(f), For: seconds(r.failingFor(now))}
}
