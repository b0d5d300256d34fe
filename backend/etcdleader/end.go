package etcdleader

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

// Abandon revokes the leases of this backend's attempts with the token that were not answered, so that what is still on
// its way takes nothing, and deletes the key if the token holds it. It takes a round trip for each of the leases, one to
// look, and one to delete.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	if err := b.leases.settle(ctx, req.Token); err != nil {
		return classify(ctx, err)
	}
	_, err := b.endIf(ctx, req.Key, func(_ *mvccpb.KeyValue, r record) bool { return r.Token == req.Token })
	if err != nil {
		return err
	}
	b.forget(ctx, req)
	return nil
}

// forget ends the terms that this backend has of a token.
func (b *Backend) forget(ctx context.Context, req backend.Request) {
	if t := b.attempts.find(req.Key, req.Token); t != nil {
		t.lose(ctx)
	}
	mark := strings.LastIndexByte(req.Key, '#')
	if mark < 0 {
		return
	}
	if t := b.attempts.find(req.Key[:mark], req.Token); t != nil && t.place == b.place(req.Key) {
		t.lose(ctx)
	}
}

// Break looks and then deletes the key, in two round trips.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	ended, err := b.endIf(ctx, key, func(kv *mvccpb.KeyValue, _ record) bool { return fenceOf(kv) == fence })
	if err == nil && !ended {
		return backend.ErrConflict
	}
	return err
}

// endIf deletes a key whose record is the one that is meant.
func (b *Backend) endIf(
	ctx context.Context, key string, isMeant func(kv *mvccpb.KeyValue, r record) bool,
) (ended bool, err error) {
	for range conflicts {
		kv, err := b.find(ctx, key, isMeant)
		if err != nil || kv == nil {
			return false, err
		}
		unchanged := clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
		answer, err := b.kv.Txn(ctx).If(unchanged).Then(clientv3.OpDelete(string(kv.Key))).Commit()
		switch {
		case err != nil:
			return false, classify(ctx, err)
		case answer.Succeeded:
			return true, nil
		}
	}
	return false, backend.WithKind(errRetry, backend.Unavailable)
}

// find reads the key whose record is the one that is meant; nil means that there is none.
func (b *Backend) find(
	ctx context.Context, key string, isMeant func(kv *mvccpb.KeyValue, r record) bool,
) (*mvccpb.KeyValue, error) {
	kvs, err := b.read(ctx, b.place(key))
	if err != nil {
		return nil, err
	}
	var unreadable error
	for _, kv := range kvs {
		switch r, err := decode(kv); {
		case err != nil:
			unreadable = err
		case isMeant(kv, r):
			return kv, nil
		}
	}
	return nil, unreadable
}

// read reads what is at a place.
func (b *Backend) read(ctx context.Context, place string) ([]*mvccpb.KeyValue, error) {
	answer, err := b.client.Get(ctx, place, clientv3.WithPrefix())
	if err != nil {
		return nil, classify(ctx, err)
	}
	return answer.Kvs, nil
}
