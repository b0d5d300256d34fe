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
	place := b.place(key)
	for range conflicts {
		kv, err := b.get(ctx, place)
		if err != nil || kv == nil {
			return false, err
		}
		r, err := decode(kv)
		if err != nil {
			return false, err
		}
		if !isMeant(kv, r) {
			return false, nil
		}
		unchanged := clientv3.Compare(clientv3.ModRevision(place), "=", kv.ModRevision)
		answer, err := b.client.Txn(ctx).If(unchanged).Then(clientv3.OpDelete(place)).Commit()
		switch {
		case err != nil:
			return false, classify(ctx, err)
		case answer.Succeeded:
			return true, nil
		}
	}
	return false, backend.WithKind(errRetry, backend.Unavailable)
}

// get reads a key; nil means that it is free.
func (b *Backend) get(ctx context.Context, place string) (*mvccpb.KeyValue, error) {
	answer, err := b.client.Get(ctx, place)
	if err != nil {
		return nil, classify(ctx, err)
	}
	if len(answer.Kvs) == 0 {
		return nil, nil //nolint:nilnil // A free key is no error.
	}
	return answer.Kvs[0], nil
}
