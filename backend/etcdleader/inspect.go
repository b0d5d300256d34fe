package etcdleader

import (
	"context"
	"iter"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

// page is how many keys a list reads at once.
const page = 500

// Inspect reports the holder, and what the server says of its lease in a second round trip: whole seconds, rounded up.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := b.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	kvs, err := b.read(ctx, b.place(key))
	if err != nil {
		return backend.Holder{}, err
	}
	kv := leading(kvs)
	h, err := holderOf(kv)
	if err != nil || h.Free() {
		return h, err
	}
	h.Remaining, err = b.remaining(ctx, clientv3.LeaseID(kv.Lease))
	return h, err
}

// Held is true in a transaction while a lease has the key and the fence that are in its LeaseInfo, also while it
// is kept. A write under this condition is one that no former holder can make.
func (b *Backend) Held(key string, fence uint64) clientv3.Cmp {
	//nolint:gosec // A fence of etcd is a revision.
	return clientv3.Compare(clientv3.CreateRevision(b.place(key)), "=", int64(fence)).WithPrefix()
}

// remaining is what is left of a lease, 0 if the server does not say. Who holds the key matters more than for how long,
// so only the end of ctx is an error.
func (b *Backend) remaining(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	answer, err := b.client.TimeToLive(ctx, id)
	if end := ctx.Err(); end != nil {
		return 0, classify(ctx, end)
	}
	if err != nil || answer.TTL < 0 {
		return 0, nil //nolint:nilerr // It is unknown then.
	}
	return time.Duration(answer.TTL+1) * time.Second, nil // The answer is cut to whole seconds.
}

// List reads the keys in pages of 500, each as it is at that moment, and without what remains of a lease. A key that is
// no record of ours is passed over. An expired lease has no key, so that all adds only those that are kept.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		err := b.eachKey(ctx, b.prefix+prefix, func(kv *mvccpb.KeyValue) bool {
			key, _, isLease := strings.Cut(strings.TrimPrefix(string(kv.Key), b.prefix), idMark)
			r, err := decode(kv)
			if !isLease || err != nil || isStray(kv) || r.Kept && !all {
				return true
			}
			return yield(backend.Entry{Key: key, Holder: r.holder(kv)}, nil)
		})
		if err != nil {
			yield(backend.Entry{}, err)
		}
	}
}

// eachKey calls f with every key that begins with prefix, until it wants no more.
func (b *Backend) eachKey(ctx context.Context, prefix string, f func(kv *mvccpb.KeyValue) bool) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from := prefix; ; {
		answer, err := b.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return classify(ctx, err)
		}
		for _, kv := range answer.Kvs {
			if !f(kv) {
				return nil
			}
		}
		if !answer.More {
			return nil
		}
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}
