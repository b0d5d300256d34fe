package mongoleader

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
)

// conflicts is how often a call starts again because the document was changed under it.
const conflicts = 3

// TryAcquire makes one attempt, in one round trip if it wins. A losing one takes a second, which tells the holder, and
// writes nothing. The first lease of a key creates its document, which takes three more.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	update, err := grant(req)
	if err != nil {
		return nil, err
	}
	for range conflicts {
		l, err := b.take(ctx, req, update)
		if l != nil || err != nil {
			return l, err
		}
		d, err := b.look(ctx, req.Key)
		switch {
		case err != nil:
			return nil, err
		case d == nil:
			err = b.create(ctx, req.Key)
		case d.spent == req.Token:
			return nil, backend.ErrLost
		case d.left() == 0:
			continue
		case d.token != req.Token:
			return nil, &backend.HeldError{Holder: d.holder()}
		default:
			if l, err = b.extend(ctx, req, d); l != nil {
				return l, nil
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, &backend.HeldError{}
}

// grant is the update that starts a term of req.
func grant(req backend.Request) (bson.D, error) {
	metadata, err := encodeMetadata(req.Metadata)
	if err != nil {
		return nil, err
	}
	set := doc(fieldToken, req.Token, fieldOwner, req.Owner, fieldMetadata, metadata, fieldLease, millis(req.TTL))
	if isSlot(req.Key) {
		set = and(set, fieldSlot, req.Token)
	}
	return doc("$set", set, "$currentDate", startTerm, "$inc", nextFence), nil
}

// take makes a lease of a free key. The lease is nil if it is not free, or has no document, or the token has another slot.
func (b *Backend) take(ctx context.Context, req backend.Request, update bson.D) (backend.Lease, error) {
	ctx, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	filter := and(readable(req.Key), fieldSpent, doc("$ne", req.Token), "$or", isFree)
	raw, err := b.leases.FindOneAndUpdate(ctx, filter, update, newFence).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) || isSlot(req.Key) && mongo.IsDuplicateKeyError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, classify(ctx, err)
	}
	if err := sameKey(raw, req.Key); err != nil {
		return nil, err
	}
	fence, ok := raw.Lookup(fieldFence).Int64OK()
	if !ok || fence <= 0 {
		return nil, unreadable(raw, "the fence is of another type")
	}
	return &lease{backend: b, key: req.Key, token: req.Token, fence: uint64(fence)}, nil
}

// newFence makes an update answer with no more than the document's new fence.
var newFence = options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(doc(fieldFence, 1))

// extend moves the end of the lease that the token has already. The lease is nil if it has ended meanwhile.
func (b *Backend) extend(ctx context.Context, req backend.Request, d *document) (backend.Lease, error) {
	l := &lease{backend: b, key: d.key, token: d.token, fence: uint64(d.fence)} //nolint:gosec // not below 1
	err := l.Renew(ctx, req.TTL)
	if errors.Is(err, backend.ErrLost) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Abandon gives up an attempt, mostly in one round trip. The token is marked as spent also where there was no document.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	for range conflicts {
		done, err := b.spend(ctx, req)
		if done || err != nil {
			return err
		}
		d, err := b.look(ctx, req.Key)
		switch {
		case err != nil:
			return err
		case d == nil:
			if err := b.create(ctx, req.Key); err != nil {
				return err
			}
		case d.left() > 0 && d.token != req.Token:
			return nil
		}
	}
	return errBusy
}

// errBusy says that a document changed each time when it had been looked at.
var errBusy = backend.WithKind(errors.New("the document is being changed by others"), backend.Unavailable)

// spend frees what the token holds, or marks the token in a free document. done is false if there was neither.
func (b *Backend) spend(ctx context.Context, req backend.Request) (done bool, err error) {
	own := and(readable(req.Key), "$or", bson.A{doc(fieldToken, req.Token), doc(fieldLease, 0)})
	n, err := b.update(ctx, b.leases, own, vacate(req.Key, req.Token))
	if n > 0 || err != nil {
		return n > 0, err
	}
	// What has expired goes on showing whose it was.
	over := and(readable(req.Key), "$expr", expired)
	n, err = b.update(ctx, b.leases, over, doc("$set", doc(fieldSpent, req.Token)))
	return n > 0, err
}

// Inspect reports the holder, in one round trip and by the server's clock.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	d, err := b.look(ctx, key)
	if err != nil || d == nil || d.left() == 0 {
		return backend.Holder{}, err
	}
	return d.holder(), nil
}
