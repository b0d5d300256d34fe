package mongoleader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
)

// look reads a key with the server's clock. The document is nil if there is none.
func (b *Backend) look(ctx context.Context, key string) (*document, error) {
	list, err := b.read(ctx, b.leases, shownLease, doc(fieldKey, key))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if err := sameKey(list[0], key); err != nil {
		return nil, err
	}
	return decode(list[0])
}

// sameKey is nil if a document has the key that was asked for, and not one that is only alike.
func sameKey(raw bson.Raw, key string) error {
	if found, ok := raw.Lookup(fieldKey).StringValueOK(); ok && found == key {
		return nil
	}
	return unreadable(raw, fmt.Sprintf("it was found for key %q: the collection's collation is not simple", key))
}

// manyAtOnce makes a round trip bring up to 1,000 documents; the first brings 101 otherwise.
var manyAtOnce = options.Aggregate().SetBatchSize(1000)

// read returns the documents that match a filter, each with the server's clock.
func (b *Backend) read(ctx context.Context, from *mongo.Collection, shown, filter bson.D) ([]bson.Raw, error) {
	ctx, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	cursor, err := from.Aggregate(ctx, bson.A{doc("$match", filter), shown}, manyAtOnce)
	if err != nil {
		return nil, classify(ctx, err)
	}
	defer cursor.Close(ctx)
	var list []bson.Raw
	for cursor.Next(ctx) {
		list = append(list, append(bson.Raw(nil), cursor.Current...))
	}
	return list, classify(ctx, cursor.Err())
}

// update changes the one document that matches, and returns how many did.
func (b *Backend) update(ctx context.Context, in *mongo.Collection, filter, update bson.D) (matched int64, err error) {
	ctx, err = b.begin(ctx)
	if err != nil {
		return 0, err
	}
	result, err := in.UpdateOne(ctx, filter, update)
	if err != nil {
		return 0, classify(ctx, err)
	}
	return result.MatchedCount, nil
}

// create makes free documents of the keys that have none, whose fences begin at the server's time in µs. Who else does
// so at the same time is welcome.
func (b *Backend) create(ctx context.Context, keys ...string) error {
	ctx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	now, err := b.serverTime(ctx)
	if err != nil {
		return err
	}
	fresh := doc("$setOnInsert", doc(
		fieldFormat, format, fieldFence, now.UnixMicro(), fieldToken, "", fieldSpent, "", fieldOwner, "",
		fieldMetadata, "", fieldRenewed, now, fieldLease, int64(0)))
	models := make([]mongo.WriteModel, len(keys))
	for i, key := range keys {
		models[i] = mongo.NewUpdateOneModel().SetFilter(doc(fieldKey, key)).SetUpdate(fresh).SetUpsert(true)
	}
	_, err = b.leases.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil && !onlyDuplicates(err) {
		return classify(ctx, err)
	}
	return nil
}

// onlyDuplicates reports whether nothing went wrong but that others were faster.
func onlyDuplicates(err error) bool {
	failed, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok || failed.WriteConcernError != nil {
		return false
	}
	for _, e := range failed.WriteErrors {
		if !mongo.IsDuplicateKeyError(e.WriteError) {
			return false
		}
	}
	return true
}

// serverTime asks for the server's clock, which shows whole ms.
func (b *Backend) serverTime(ctx context.Context) (time.Time, error) {
	answer, err := b.hello(ctx)
	if err != nil {
		return time.Time{}, err
	}
	now, ok := answer.Lookup("localTime").TimeOK()
	if !ok {
		return time.Time{}, backend.WithKind(errors.New("the server does not tell its time"), backend.Misconfigured)
	}
	return now, nil
}

// hello asks the server to describe itself.
func (b *Backend) hello(ctx context.Context) (bson.Raw, error) {
	ctx, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := b.db.RunCommand(ctx, doc("hello", 1)).Raw()
	if hasCode(err, commandNotFound) { // before 4.4.2
		answer, err = b.db.RunCommand(ctx, doc("isMaster", 1)).Raw()
	}
	return answer, classify(ctx, err)
}
