package etcdleader

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// slack is how much longer than asked for a lease lasts at least. So a lease whose last keep-alive was sent that
	// long ago still lasts for the time asked for, and most acquisitions need no keep-alive of their own.
	slack = 200 * time.Millisecond

	maxIdle  = 64          // leases in the pool
	idleTime = time.Minute // of a lease in the pool
)

// pooled is a lease of etcd, which holds one key at a time.
type pooled struct {
	id      int64
	name    string        // what its keys end with
	seconds int64         // the TTL that was asked for
	ttl     time.Duration // the one that the server gave
	vote    uint64        // the number of the vote (raft's term) in which it was granted

	// Guarded by the pool's mutex.
	kept       time.Time // when the newest answered grant or keep-alive was sent
	idle       time.Time // since when it is in the pool
	unanswered int       // keep-alives
	tainted    bool      // some request was not answered, or two releases were under way
}

// lasts reports whether the lease lasts, from the given instant on, for d. A clock that stood still while the machine
// slept must not make it look fresh, so both clocks count.
func (p *pooled) lasts(from time.Time, d time.Duration) bool {
	since := max(from.Sub(p.kept), from.Round(0).Sub(p.kept.Round(0)))
	return since+d <= p.ttl
}

// pool has the leases that hold no key, and revokes those that must not be used again. While there are any it has a
// goroutine, see keeper.go.
type pool struct {
	*lessor

	mu     sync.Mutex
	idle   map[int64][]*pooled // by the TTL asked for; the last was used last
	size   int
	vote   uint64 // the last one that was heard of
	dying  []*dying
	stop   context.CancelFunc // ends the keeper; nil while there is none
	next   time.Time          // when the keeper looks next
	signal chan struct{}      // tells the keeper that this is sooner
	closed bool

	running sync.WaitGroup
}

func newPool(l *lessor) *pool {
	return &pool{lessor: l, idle: map[int64][]*pooled{}, signal: make(chan struct{}, 1)}
}

// take returns a lease for a TTL, from the pool or a new one. Its caller puts it back or poisons it.
func (k *pool) take(ctx context.Context, ttl time.Duration) (*pooled, error) {
	if p := k.pop(ctx, seconds(ttl+slack)); p != nil {
		return p, nil
	}
	return k.takeNew(ctx, ttl)
}

// takeNew is take without the pool.
func (k *pool) takeNew(ctx context.Context, ttl time.Duration) (*pooled, error) {
	return k.grantNew(ctx, seconds(ttl+slack))
}

// grantNew makes a lease that is in no pool.
func (k *pool) grantNew(ctx context.Context, want int64) (*pooled, error) {
	id := newLeaseID()
	p := &pooled{
		id: id, name: strconv.FormatInt(id, 16), seconds: want, ttl: time.Duration(want) * time.Second, kept: time.Now(),
	}
	k.mu.Lock()
	p.vote = k.vote // The answer may already be of a later one.
	k.mu.Unlock()
	answer, err := k.grant(ctx, p.id, want)
	if err != nil {
		// It has no key, so that it is enough to wait for a grant that is on its way.
		k.revokeLater(ctx, &dying{pooled: p, until: p.kept.Add(min(2*p.ttl, idleTime))})
		return nil, err
	}
	p.ttl = max(p.ttl, time.Duration(answer.TTL)*time.Second)
	p.vote = cmp.Or(p.vote, answer.GetHeader().GetRaftTerm())
	return p, nil
}

// pop takes the lease out of the pool that was used last. Those from before the last vote are dying.
func (k *pool) pop(ctx context.Context, want int64) *pooled {
	k.mu.Lock()
	defer k.mu.Unlock()
	for list := k.idle[want]; len(list) > 0; list = k.idle[want] {
		p := list[len(list)-1]
		if k.remove(p); p.vote == k.vote {
			return p
		}
		k.dying = append(k.dying, k.poisoned(p, ""))
		k.keep(ctx, time.Time{})
	}
	return nil
}

// remove takes a lease out of the pool. k.mu is held.
func (k *pool) remove(p *pooled) {
	list := k.idle[p.seconds]
	i := slices.Index(list, p)
	if i < 0 {
		return
	}
	k.size--
	if list = slices.Delete(list, i, i+1); len(list) > 0 {
		k.idle[p.seconds] = list
	} else {
		delete(k.idle, p.seconds)
	}
}

// put gives a lease back that certainly holds no key. One with an unresolved request, or from before the last vote, is
// revoked instead.
func (k *pool) put(ctx context.Context, p *pooled) {
	k.mu.Lock()
	clean := p.unanswered == 0 && !p.tainted && p.vote == k.vote && k.size < maxIdle
	if clean && !k.closed {
		p.idle = time.Now()
		k.idle[p.seconds] = append(k.idle[p.seconds], p)
		k.size++
		k.keep(ctx, p.due())
	}
	k.mu.Unlock()
	if !clean {
		k.poison(ctx, p, "")
	}
}

// poison revokes a lease in the background. A token names the attempt that used it and whose outcome is unknown.
func (k *pool) poison(ctx context.Context, p *pooled, token string) {
	k.mu.Lock()
	d := k.poisoned(p, token)
	k.mu.Unlock()
	k.revokeLater(ctx, d)
}

// poisoned makes a lease one that is to be revoked. k.mu is held.
func (k *pool) poisoned(p *pooled, token string) *dying {
	until := p.kept.Add(2 * p.ttl) // a keep-alive on its way may still be delivered
	return &dying{pooled: p, token: token, granted: true, until: until}
}

// renewal is a keep-alive on its way.
type renewal struct {
	pool *pool
	p    *pooled
	sent time.Time
	call *aliveCall
}

// heard takes the number of the last vote from an answer for which the servers needed a quorum. It becomes smaller where
// a backup was restored.
func (k *pool) heard(answer *pb.ResponseHeader) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vote = answer.GetRaftTerm()
}

// isOld reports whether there was a vote since the lease was granted.
func (k *pool) isOld(p *pooled) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return p.vote != k.vote
}

// keptAt is when the newest answered grant or keep-alive of a lease in use was sent.
func (k *pool) keptAt(p *pooled) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return p.kept
}

// renew sends a keep-alive, which has to be awaited. Without a lease it does nothing.
func (k *pool) renew(ctx context.Context, p *pooled) *renewal {
	if p == nil {
		return nil
	}
	k.mu.Lock()
	p.unanswered++
	k.mu.Unlock()
	return &renewal{pool: k, p: p, sent: time.Now(), call: k.alive.send(ctx, p.id)}
}

// wait returns an error if the lease is dead or the answer was lost.
func (r *renewal) wait(ctx context.Context) error {
	if r == nil {
		return nil
	}
	answer, err := r.call.wait(ctx)
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.p.unanswered--
	if err != nil {
		r.p.tainted = true
		return err
	}
	r.pool.vote = max(r.pool.vote, answer.GetHeader().GetRaftTerm()) // a server may answer that knows of no vote yet
	if r.sent.After(r.p.kept) {
		r.p.kept = r.sent
	}
	return nil
}

// freshen makes sure that a lease lasts for d from the given instant on.
func (k *pool) freshen(ctx context.Context, p *pooled, from time.Time, d time.Duration) error {
	k.mu.Lock()
	fresh := p.lasts(from, d)
	k.mu.Unlock()
	if fresh {
		return nil
	}
	return k.renew(ctx, p).wait(ctx)
}

// lasts reports whether a lease that is in use has not ended by itself at the given instant.
func (k *pool) lasts(p *pooled, at time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return p.lasts(at, 0)
}

// taint keeps a lease that is in use from another use, because a request is unresolved.
func (k *pool) taint(p *pooled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.tainted = true
}
