package etcdleader

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

var (
	// errRetry says that an attempt found a state that has passed meanwhile.
	errRetry = errors.New("changed meanwhile")
	// errUnkept says that a key was taken, and then its lease was said to be dead.
	errUnkept = errors.New("the lease ended when the key was taken")
)

// candidacy is one attempt for a key or for a slot.
type candidacy struct {
	*Backend

	req    backend.Request
	turn   *attempt
	sent   time.Time
	record record
	value  string
	pooled *pooled // the lease for the key, if it is won
}

// TryAcquire makes one attempt in one round trip. It needs another one, for a new lease, if the pool has none, and for a
// keep-alive, if it has won and the lease from the pool was kept alive too long ago. A losing attempt writes nothing and
// tells the holder, but not for how long.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	c, err := b.candidate(ctx, req)
	if err != nil {
		return nil, err
	}
	defer b.attempts.leave(c.turn)
	if t := b.attempts.termOf(c.turn); t != nil {
		return t.again(ctx)
	}
	place := b.place(req.Key)
	t, err := c.insist(ctx, func() (*term, error) { return c.try(ctx, place) })
	if err != nil {
		return nil, err
	}
	return t, nil
}

// candidate prepares an attempt, whose turn the caller ends.
func (b *Backend) candidate(ctx context.Context, req backend.Request) (*candidacy, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	c := &candidacy{Backend: b, req: req, sent: time.Now(), record: newRecord(req)}
	var err error
	if c.value, err = c.record.encode(); err != nil {
		return nil, err
	}
	c.turn, err = b.attempts.enter(ctx, req.Key, req.Token)
	return c, err
}

// insist repeats a try whose lease from the pool turned out to be dead, or that met a conflict. The lease goes where it
// belongs: into the term, back into the pool, or to be revoked.
func (c *candidacy) insist(ctx context.Context, try func() (*term, error)) (*term, error) {
	take := c.leases.take
	for n := 1; ; n++ {
		t, err := c.once(ctx, take, try)
		if !errors.Is(err, errRetry) && !isDead(err) {
			return t, err
		}
		if n == conflicts {
			return nil, classify(ctx, err)
		}
		if isDead(err) {
			take = c.leases.takeNew // The others in the pool may be as dead.
		}
	}
}

func (c *candidacy) once(
	ctx context.Context, take func(ctx context.Context, ttl time.Duration) (*pooled, error), try func() (*term, error),
) (*term, error) {
	var err error
	if c.pooled, err = take(ctx, c.req.TTL); err != nil {
		return nil, classify(ctx, err)
	}
	t, err := try()
	switch {
	case err == nil:
		c.attempts.open(c.turn, t)
		if c.leases.isOld(c.pooled) {
			t.move(ctx, c.pooled)
		}
		return t, nil
	case isDead(err):
		return nil, err // and there is nothing to revoke
	case errors.Is(err, backend.ErrHeld), errors.Is(err, errRetry), backend.KindOf(err) == backend.Misconfigured:
		c.leases.put(ctx, c.pooled) // The answer says that nothing was written.
		return nil, err
	}
	c.leases.poison(ctx, c.pooled, c.req.Token)
	return nil, classify(ctx, err)
}

// try takes the key if it is free.
func (c *candidacy) try(ctx context.Context, place string) (*term, error) {
	key := c.key(place)
	look := clientv3.OpGet(place, clientv3.WithPrefix())
	answer, err := c.kv.Txn(ctx).If(isFree(place)).Then(c.put(key)).Else(look).Commit()
	if err != nil {
		return nil, err
	}
	c.leases.heard(answer.Header)
	if answer.Succeeded {
		return c.won(ctx, key, answer.Header.Revision, answer.Header.Revision)
	}
	return c.lost(ctx, answer.Responses[0].GetResponseRange().Kvs)
}

// lost looks at who is at a place. It may be an earlier attempt with the same token.
func (c *candidacy) lost(ctx context.Context, kvs []*mvccpb.KeyValue) (*term, error) {
	var held, unreadable error
	for _, kv := range kvs {
		r, err := decode(kv)
		switch {
		case err != nil:
			unreadable = err
		case r.Token == c.req.Token:
			return c.adopt(ctx, kv, r)
		case !isStray(kv):
			held = &backend.HeldError{Holder: r.holder(kv)}
		default:
			if err := c.clear(ctx, kv); err != nil {
				return nil, err
			}
		}
	}
	return nil, cmp.Or(held, unreadable, errRetry)
}

// clear deletes a stray record, unless it has changed meanwhile.
func (c *candidacy) clear(ctx context.Context, kv *mvccpb.KeyValue) error {
	unchanged := clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
	_, err := c.kv.Txn(ctx).If(unchanged).Then(clientv3.OpDelete(string(kv.Key))).Commit()
	return err
}

// adopt moves the key of an earlier attempt under the lease of this one. The earlier lease must not be kept alive,
// because the earlier attempt may still be delivered once more.
func (c *candidacy) adopt(ctx context.Context, kv *mvccpb.KeyValue, r record) (*term, error) {
	key := string(kv.Key)
	unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)
	move := clientv3.OpPut(key, string(kv.Value), clientv3.WithLease(clientv3.LeaseID(c.pooled.id)))
	answer, err := c.kv.Txn(ctx).If(unchanged).Then(move).Commit()
	switch {
	case err != nil:
		return nil, err
	case !answer.Succeeded:
		return nil, errRetry
	}
	c.record = r
	return c.won(ctx, key, kv.CreateRevision, answer.Header.Revision)
}

// won makes a term of the key, whose lease has to last for the TTL from the start of the attempt on.
func (c *candidacy) won(ctx context.Context, key string, fence, revision int64) (*term, error) {
	switch err := c.leases.freshen(ctx, c.pooled, c.sent, c.req.TTL); {
	case isDead(err):
		return nil, errUnkept // Not to be tried again before the lease is revoked: the token could get two slots.
	case err != nil:
		return nil, err
	}
	place := placeOf(key)
	t := &term{
		backend: c.Backend, attempt: c.turn, place: place, key: key, fence: fence, record: c.record,
		revision: revision, pooled: c.pooled, byName: key[len(place):] == c.pooled.name, lost: make(chan struct{}),
	}
	ctx = context.WithoutCancel(ctx)
	t.follow = func() { c.notices.join(ctx, place, t) }
	return t, nil
}

// key is that of the lease from the pool at a place.
func (c *candidacy) key(place string) string { return place + c.pooled.name }

// put writes the record under the lease.
func (c *candidacy) put(key string) clientv3.Op {
	return clientv3.OpPut(key, c.value, clientv3.WithLease(clientv3.LeaseID(c.pooled.id)))
}

// isFree is true of a place without a key.
func isFree(place string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(place), "=", 0).WithPrefix()
}
