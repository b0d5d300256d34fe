package etcdleader

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A leader of etcd that stood still for a while, with the machine below it say, may end leases when it goes on: those
// that have run out by what it knew before, although another member leads since then and was told that they live. It
// looks first whether it still leads, but not where its raft seems to run, which goes on at the same time. It knows
// nothing of leases that were granted meanwhile. So a term moves its key under a new lease as soon as a renewal shows
// that the members have voted since its lease was granted. The new one is kept alive from then on too, because a move
// whose outcome is unknown may still happen.

var errOver = errors.New("the term is over")

// move puts the key under another lease. Where it could not, the next renewal sees where the key is, and tries again.
func (t *term) move(ctx context.Context, p *pooled) {
	if !t.moving.TryLock() {
		return
	}
	defer t.moving.Unlock()
	next, err := t.target(ctx, p)
	if err != nil {
		return
	}
	unchanged := clientv3.Compare(clientv3.ModRevision(t.key), "=", t.lastWrite())
	put := clientv3.OpPut(t.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(clientv3.LeaseID(next.id)))
	answer, err := t.backend.kv.Txn(ctx).If(unchanged).Then(put).Commit()
	switch {
	case err != nil:
		t.backend.leases.taint(next)
	case answer.Succeeded:
		t.moved(ctx, next, answer.Header.Revision)
	}
}

// target is the lease to move to, which an earlier move may have left.
func (t *term) target(ctx context.Context, p *pooled) (*pooled, error) {
	switch known, next := t.leases(); {
	case known != p:
		return nil, errOver
	case next != nil:
		return next, nil
	}
	next, err := t.backend.leases.grantNew(ctx, p.seconds)
	if err != nil {
		return nil, err
	}
	for {
		switch t.announce(p, next) {
		case announced:
			return next, nil
		case tooLate:
			t.backend.leases.put(ctx, next)
			return nil, errOver
		case tooOld:
			if err := t.backend.leases.renew(ctx, next).wait(ctx); err != nil {
				t.backend.leases.poison(ctx, next, "")
				return nil, err
			}
		}
	}
}

type announcement int

const (
	announced announcement = iota
	tooLate                // the term is over, or under another lease
	tooOld                 // a renewal has promised more than the lease lasts
)

// announce makes the lease known to renewals, which keep it alive from then on.
func (t *term) announce(p, next *pooled) announcement {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.pooled != p || t.next != nil:
		return tooLate
	case t.backend.leases.keptAt(next).Before(t.lastRenewal):
		return tooOld
	}
	t.next = next
	return announced
}

// moved notes that the key is under the next lease, by the write of the given revision.
func (t *term) moved(ctx context.Context, next *pooled, revision int64) {
	t.mu.Lock()
	if t.next != next {
		t.mu.Unlock()
		return
	}
	old := t.pooled
	t.pooled, t.next, t.revision, t.byName = next, nil, revision, false
	t.mu.Unlock()
	t.backend.leases.poison(ctx, old, "")
}

// drop gives up to move to a lease that is dead.
func (t *term) drop(ctx context.Context, next *pooled) {
	t.mu.Lock()
	is := t.next == next
	if is {
		t.next = nil
	}
	t.mu.Unlock()
	if is {
		t.backend.leases.poison(ctx, next, "")
	}
}

// isUnder reports whether these are still the leases of the term.
func (t *term) isUnder(p, next *pooled) bool {
	known, knownNext := t.leases()
	return known == p && knownNext == next
}

// leases are the one that the key is under and the one that it is being moved to, both nil once the term is over.
func (t *term) leases() (p, next *pooled) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pooled, t.next
}
