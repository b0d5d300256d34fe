package etcdleader

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

// term is a granted lease, which repeated attempts share.
type term struct {
	backend *Backend
	attempt *attempt
	place   string
	key     string // which no other term has while this one may send a request that deletes it by its name
	fence   int64  // the create revision of the key
	record  record
	lost    chan struct{}
	follow  func()     // starts the watch
	moving  sync.Mutex // held by who moves the key under another lease

	mu       sync.Mutex
	revision int64   // of our last write to the key
	byName   bool    // the key is named after our lease, and no renewal has found anything else in it than our record
	pooled   *pooled // the lease under the key; nil once the term is over
	next     *pooled // the lease that the key is being moved to; nil if there is none

	lastRenewal time.Time // when the last one that succeeded began

	releases int // under way, so that what a watch shows is our own doing
	watch    *time.Timer
	watching bool
}

func (t *term) Fence() uint64 { return uint64(max(t.fence, 0)) }

// again answers a repeated attempt. What it says is what a renewal says.
func (t *term) again(ctx context.Context) (backend.Lease, error) {
	if err := t.Renew(ctx, 0); err != nil {
		return nil, err
	}
	return t, nil
}

// Renew sends a keep-alive, and beside it a read that proves that the key is still there, and that the server which
// answers has a quorum. It repeats the TTL of the acquisition, whatever ttl is.
func (t *term) Renew(ctx context.Context, _ time.Duration) error {
	for range conflicts {
		if done, err := t.renew(ctx); done || err != nil {
			return err
		}
	}
	return backend.WithKind(errRetry, backend.Unavailable)
}

// renew is one try; done is false if the key was moved meanwhile to a lease that it has not kept alive.
func (t *term) renew(ctx context.Context) (done bool, err error) {
	sent := time.Now()
	p, next := t.leases()
	if p == nil {
		return false, backend.ErrLost
	}
	b := t.backend
	if err := b.ready(ctx); err != nil {
		return false, err
	}
	alive, nextAlive := b.leases.renew(ctx, p), b.leases.renew(ctx, next)
	answer, err := b.client.Get(ctx, t.key)
	aliveErr, nextErr := alive.wait(ctx), nextAlive.wait(ctx)
	if err != nil {
		return false, classify(ctx, err)
	}
	b.leases.heard(answer.Header)
	id, err := t.leaseIn(answer.Kvs)
	switch {
	case err != nil:
		t.distrustName()
		return false, err
	case next != nil && id == next.id:
		t.moved(ctx, next, answer.Kvs[0].ModRevision)
		p, next, aliveErr = next, nil, nextErr
	case id != p.id && t.isUnder(p, next):
		t.lose(ctx)
		return false, backend.ErrLost
	case id == p.id && isDead(nextErr):
		t.drop(ctx, next)
	case id == p.id:
		t.wrote(answer.Kvs[0].ModRevision) // by whomever
	}
	switch aliveErr = cmp.Or(aliveErr, nextErr); {
	case !t.isUnder(p, next):
		return false, nil
	case aliveErr != nil: // Even if the lease is said to be dead: what it ends is gone, or will be at the next renewal.
		return false, classify(ctx, aliveErr)
	}
	return t.renewed(ctx, p, next, sent), nil
}

// renewed notes that the key lives for the TTL from the given instant on, whichever of the leases it is under. It reports
// false if it may be under another one by now.
func (t *term) renewed(ctx context.Context, p, next *pooled, sent time.Time) bool {
	t.mu.Lock()
	is := t.pooled == p && t.next == next
	if is && sent.After(t.lastRenewal) {
		t.lastRenewal = sent
	}
	t.mu.Unlock()
	if !is {
		return false
	}
	t.rewatch()
	if t.backend.leases.isOld(p) {
		t.move(ctx, p)
	}
	return true
}

// leaseIn is the id of the lease that the key is under; 0 if it is not the term's.
func (t *term) leaseIn(kvs []*mvccpb.KeyValue) (id int64, err error) {
	if len(kvs) == 0 || kvs[0].CreateRevision != t.fence {
		return 0, nil
	}
	r, err := decode(kvs[0])
	if err != nil || r.Token != t.record.Token {
		return 0, err
	}
	return kvs[0].Lease, nil
}

// Release deletes the key, or with keep leaves it under a lease of its own. A time to keep is rounded up to whole
// seconds, and to the server's minimum.
func (t *term) Release(ctx context.Context, keep time.Duration) error {
	if t.isLost() {
		return nil
	}
	if err := t.backend.ready(ctx); err != nil {
		return err
	}
	byName := t.beginRelease()
	defer t.endRelease()
	switch {
	case keep > 0:
		return t.keep(ctx, keep)
	case byName:
		return t.delete(ctx)
	}
	_, err := t.rewrite(ctx, clientv3.OpDelete(t.key))
	return err
}

// beginRelease reports whether the key may be deleted by its name alone: it may not once the term is over, as the lease
// that gives the key its name serves others then. It must not before all releases of this one are answered, so one that
// comes beside another keeps the lease out of the pool.
func (t *term) beginRelease() (byName bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releases++
	if t.pooled == nil {
		return false
	}
	if t.releases > 1 {
		t.backend.leases.taint(t.pooled)
	}
	return t.byName
}

func (t *term) endRelease() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releases--
}

// delete deletes the key in one request, whatever has become of its record since it was last seen.
func (t *term) delete(ctx context.Context) error {
	answer, err := t.backend.kv.Delete(ctx, t.key)
	switch {
	case err != nil:
		t.taint()
		return classify(ctx, err)
	case answer.Deleted == 0:
		t.lose(ctx)
	default:
		t.end(ctx, answer.Header.Revision)
	}
	return nil
}

// keep is a Release with keep. After an error its lease is not revoked, because the key may be under it.
func (t *term) keep(ctx context.Context, keep time.Duration) error {
	value, err := t.record.keep().encode()
	if err != nil {
		return err
	}
	b := t.backend
	p, err := b.leases.grantNew(ctx, seconds(keep))
	if err != nil {
		return classify(ctx, err)
	}
	written, err := t.rewrite(ctx, clientv3.OpPut(t.key, value, clientv3.WithLease(clientv3.LeaseID(p.id))))
	if err == nil && !written {
		b.leases.poison(ctx, p, "")
	}
	return err
}

// rewrite does op if the key is still as the term has left it, and ends the term.
func (t *term) rewrite(ctx context.Context, op clientv3.Op) (done bool, err error) {
	for range conflicts {
		unchanged := clientv3.Compare(clientv3.ModRevision(t.key), "=", t.lastWrite())
		answer, err := t.backend.kv.Txn(ctx).If(unchanged).Then(op).Commit()
		if err != nil {
			t.taint()
			return false, classify(ctx, err)
		}
		if answer.Succeeded {
			t.end(ctx, answer.Header.Revision)
			return true, nil
		}
		if again, err := t.isReleased(ctx); err != nil || !again {
			return false, err
		}
	}
	return false, backend.WithKind(errRetry, backend.Unavailable)
}

// isReleased looks at a key that is not as the term has left it. It reports true if an earlier release, whose answer was
// lost, has kept it. Otherwise the term is lost.
func (t *term) isReleased(ctx context.Context) (bool, error) {
	answer, err := t.backend.client.Get(ctx, t.key)
	if err != nil {
		return false, classify(ctx, err)
	}
	if len(answer.Kvs) == 0 || answer.Kvs[0].CreateRevision != t.fence {
		t.lose(ctx)
		return false, nil
	}
	kv := answer.Kvs[0]
	r, err := decode(kv)
	if err != nil {
		return false, err
	}
	if r.Token != t.record.Token && r.Spent != t.record.Token {
		t.lose(ctx)
		return false, nil
	}
	t.wrote(kv.ModRevision)
	return true, nil
}

func (t *term) lease() *pooled {
	p, _ := t.leases()
	return p
}

func (t *term) isLost() bool {
	select {
	case <-t.lost:
		return true
	default:
		return false
	}
}

func (t *term) lastWrite() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revision
}

func (t *term) distrustName() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName = false
}

func (t *term) wrote(revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision = max(t.revision, revision)
}

// taint keeps the lease, which has an unresolved request, from another use.
func (t *term) taint() {
	if p := t.lease(); p != nil {
		t.backend.leases.taint(p)
	}
}

// expired reports whether the lease has ended by itself.
func (t *term) expired(now time.Time) bool {
	p := t.lease()
	return p == nil || !t.backend.leases.lasts(p, now.Add(-late))
}

// end ends the term by a release, which was the write of the given revision.
func (t *term) end(ctx context.Context, revision int64) {
	t.wrote(revision)
	if p := t.close(ctx); p != nil {
		t.backend.leases.put(ctx, p)
	}
}

// lose ends a term whose key or lease is gone.
func (t *term) lose(ctx context.Context) {
	t.mu.Lock()
	if !t.isLost() {
		close(t.lost)
	}
	t.mu.Unlock()
	if p := t.close(ctx); p != nil {
		t.backend.leases.poison(ctx, p, "")
	}
}

// close takes the lease out of the term, the first time.
func (t *term) close(ctx context.Context) *pooled {
	t.mu.Lock()
	p, next := t.pooled, t.next
	t.pooled, t.next = nil, nil
	watching := t.watching
	t.watching = false
	if t.watch != nil {
		t.watch.Stop()
	}
	t.mu.Unlock()
	if watching {
		t.backend.notices.leave(t.place, t)
	}
	if next != nil {
		t.backend.leases.poison(ctx, next, "")
	}
	t.backend.attempts.close(t)
	return p
}
