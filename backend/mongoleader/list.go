package mongoleader

import (
	"context"
	"iter"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/goleader/leader/backend"
)

// List reads the documents of all keys that begin with prefix, a thousand at once. What is taken or released meanwhile
// may be missing, and what is not a readable document is passed over. An expired lease is listed for as long as nobody
// has taken its key.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		if err := b.list(ctx, prefix, all, yield); err != nil {
			yield(backend.Entry{}, err)
		}
	}
}

// list returns an error that is still to be told.
func (b *Backend) list(ctx context.Context, prefix string, all bool, yield func(backend.Entry, error) bool) error {
	ctx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	taken := doc(fieldFormat, format, fieldLease, positive)
	if !all {
		taken = and(taken, "$expr", live)
	}
	cursor, err := b.leases.Aggregate(ctx, bson.A{doc("$match", startingWith(taken, prefix)), shownLease}, manyAtOnce)
	if err != nil {
		return classify(ctx, err)
	}
	defer closeCursor(ctx, cursor)
	for cursor.Next(ctx) {
		d, err := decode(cursor.Current)
		if err != nil || !strings.HasPrefix(d.key, prefix) {
			continue
		}
		h := d.holder()
		if !all && (h.Kept || h.Remaining == 0) || h.Kept && h.Remaining == 0 {
			continue
		}
		if !yield(backend.Entry{Key: d.key, Holder: h}, nil) {
			return nil
		}
	}
	return classify(ctx, cursor.Err())
}

// startingWith narrows a filter to keys that begin with prefix.
func startingWith(filter bson.D, prefix string) bson.D {
	if prefix == "" {
		return filter
	}
	return and(filter, fieldKey, doc("$regex", "^"+regexp.QuoteMeta(prefix)))
}

// closeCursor ends a cursor, also at the server, where it would end by itself only after some minutes.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = cursor.Close(ctx) // What was wanted has been read.
}
