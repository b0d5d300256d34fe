package mongoleader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
)

// The fields of a record's document that a lease's has not. Its fieldRenewed is when it was put, and its fieldLease is
// 0 if it never ends.
const (
	fieldVersion = "version"
	fieldValue   = "value"
)

// exists is the condition that a record has not expired.
var exists = bson.A{doc(fieldLease, 0), doc("$expr", live)}

// PutRecord compares and stores in one round trip; creating one where there is one, or was one, takes two or three. A
// version is a random number, so that it is never used again.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if err := checkRecord(r.Key); err != nil {
		return "", err
	}
	if r.TTL < 0 || r.TTL > maxTTL {
		err := fmt.Errorf("ttl %v is not between 0 and the maximum of %v", r.TTL, maxTTL)
		return "", backend.WithKind(err, backend.Misconfigured)
	}
	var ms int64
	if r.TTL > 0 {
		ms = millis(r.TTL)
	}
	version = rand.Text()
	value := bson.Binary{Data: append([]byte{}, r.Value...)}
	put := doc("$set", doc(fieldVersion, version, fieldValue, value, fieldLease, ms), "$currentDate", startTime)
	if r.Version == "" {
		err = b.createRecord(ctx, r.Key, version, put)
	} else {
		err = b.replaceRecord(ctx, and(record(r.Key), fieldVersion, r.Version, "$or", exists), put)
	}
	if errors.Is(err, backend.ErrConflict) {
		if failed := b.checkReadable(ctx, r.Key); failed != nil {
			err = failed
		}
	}
	if err != nil {
		return "", err
	}
	return version, nil
}

// createRecord stores a record that does not exist. The filter names the version that it gets, so that it matches no
// document but what the same request has made.
func (b *Backend) createRecord(ctx context.Context, key, version string, put bson.D) error {
	ctx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	fresh := and(put, "$setOnInsert", doc(fieldFormat, format))
	_, err = b.records.UpdateOne(ctx, doc(fieldKey, key, fieldVersion, version), fresh, options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) {
		return b.replaceRecord(ctx, and(record(key), fieldLease, positive, "$expr", expired), put)
	}
	return classify(ctx, err)
}

func (b *Backend) replaceRecord(ctx context.Context, filter, put bson.D) error {
	n, err := b.update(ctx, b.records, filter, put)
	if n == 0 && err == nil {
		err = backend.ErrConflict
	}
	return err
}

// GetRecords reads a set in one round trip for each thousand, with the server's clock, for which an empty set takes a
// second. What has expired is deleted, in one more.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	if err := checkRecord(prefix); err != nil {
		return nil, time.Time{}, err
	}
	ctx, err = b.begin(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	raws, err := b.read(ctx, b.records, shownRecord, startingWith(nil, prefix))
	if err != nil {
		return nil, time.Time{}, err
	}
	list = make([]backend.Record, 0, len(raws))
	var over bson.A
	for _, raw := range raws {
		r, at, err := decodeRecord(raw)
		switch {
		case err != nil:
			return nil, time.Time{}, err
		case !strings.HasPrefix(r.Key, prefix):
			continue
		case r.TTL < 0:
			over = append(over, r.Key)
		default:
			list = append(list, r)
		}
		now = at
	}
	if len(over) > 0 {
		b.sweep(ctx, over)
	}
	if now.IsZero() {
		now, err = b.serverTime(ctx)
	}
	return list, now, err
}

// sweep deletes those of keys that have expired. If it fails, a later one does it.
func (b *Backend) sweep(ctx context.Context, keys bson.A) {
	_, _ = b.records.DeleteMany(ctx, doc(fieldKey, doc("$in", keys), fieldLease, positive, "$expr", expired))
}

// DeleteRecord compares and deletes in one round trip. Where it deletes nothing it looks why.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	if err := checkRecord(r.Key); err != nil {
		return err
	}
	ctx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	result, err := b.records.DeleteOne(ctx, and(record(r.Key), fieldVersion, r.Version))
	if err != nil {
		return classify(ctx, err)
	}
	if result.DeletedCount > 0 {
		return nil
	}
	raws, err := b.read(ctx, b.records, shownRecord, doc(fieldKey, r.Key))
	if err != nil || len(raws) == 0 {
		return err
	}
	found, _, err := decodeRecord(raws[0])
	if err == nil && found.TTL >= 0 {
		err = backend.ErrConflict
	}
	return err
}

// checkReadable reports a document in a record's place that cannot be read.
func (b *Backend) checkReadable(ctx context.Context, key string) error {
	raws, err := b.read(ctx, b.records, shownRecord, doc(fieldKey, key))
	if err != nil || len(raws) == 0 {
		return err
	}
	_, _, err = decodeRecord(raws[0])
	return err
}

// record is a filter for a record's document.
func record(key string) bson.D { return doc(fieldKey, key, fieldFormat, format) }

func checkRecord(key string) error {
	if mark := strings.IndexByte(key, '!'); mark >= 0 && strings.IndexByte(key[mark:], '/') > 0 {
		return nil
	}
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}

// decodeRecord reads a record and the server's clock. The TTL of one that has expired is negative.
func decodeRecord(raw bson.Raw) (r backend.Record, now time.Time, err error) {
	var isKey, isVersion, isValue, isRenewed, isLease, isNow bool
	r.Key, isKey = raw.Lookup(fieldKey).StringValueOK()
	if version, ok := raw.Lookup(fieldFormat).AsInt64OK(); !ok || version != int64(format) {
		err := fmt.Errorf("the format is not %d, which is the one this release knows", format)
		return r, now, unreadable(raw, err.Error())
	}
	r.Version, isVersion = raw.Lookup(fieldVersion).StringValueOK()
	_, value, isValue := raw.Lookup(fieldValue).BinaryOK()
	renewed, isRenewed := raw.Lookup(fieldRenewed).TimeOK()
	ms, isLease := raw.Lookup(fieldLease).AsInt64OK()
	now, isNow = raw.Lookup(fieldNow).TimeOK()
	if !isKey || !isVersion || !isValue || !isRenewed || !isLease || !isNow || r.Version == "" {
		return r, now, unreadable(raw, "a field is missing or of another type")
	}
	r.Value = value
	if ms == 0 {
		return r, now, nil
	}
	r.TTL = renewed.Add(time.Duration(ms) * time.Millisecond).Sub(now)
	if r.TTL == 0 { // 0 would mean that it never ends
		r.TTL = -1
	}
	return r, now, nil
}
