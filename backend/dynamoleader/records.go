package dynamoleader

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader/backend"
)

const (
	setValue   = "SET #format = :format, #version = :version, #value = :value, #key = :key, "
	setLimit   = setValue + "#ends = :ends, #lasts = :lasts, #expires = :expires"
	setForEver = setValue + "#lasts = :zero REMOVE #ends, #expires"

	missing  = "attribute_not_exists(#name) OR #format = :format AND #ends <= :least"
	existing = "#format = :format AND #version = :old AND (attribute_not_exists(#ends) OR #ends > :least)"

	// cleanMost is how many expired records one call deletes.
	cleanMost = 16
)

// putting has the statements that store a record, by whether there is one already and whether it has an end.
var putting = map[[2]bool]*statement{
	{false, false}: newStatement(setForEver, missing),
	{false, true}:  newStatement(setLimit, missing),
	{true, false}:  newStatement(setForEver, existing),
	{true, true}:   newStatement(setLimit, existing),
}

// PutRecord compares and stores in one request, with another one before it where the service's time was not heard of for
// a minute. Of that only whole seconds are told, so a record ends up to two seconds late.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if err := b.readyFor(ctx, r.Key); err != nil {
		return "", err
	}
	if r.TTL < 0 || r.TTL > maxTTL {
		err := fmt.Errorf("a TTL of %v is not between 0 and the limit of %v", r.TTL, maxTTL)
		return "", backend.WithKind(err, backend.Misconfigured)
	}
	p := recordPlace(r.Key)
	least, most, err := b.serverTime(ctx, p)
	if err != nil {
		return "", err
	}
	version = rand.Text()
	end := most.Add(r.TTL)
	params := values{
		":format":  number(int64(format)),
		":zero":    number(int64(0)),
		":key":     text(r.Key),
		":version": text(version),
		":old":     maybe(r.Version),
		":value":   binary(r.Value),
		":least":   instant(least),
		":ends":    instant(end.Add(time.Millisecond)),
		":lasts":   millis(r.TTL),
		":expires": expiry(end),
	}
	_, _, err = b.write(ctx, p, putting[[2]bool{r.Version != "", r.TTL > 0}], params, types.ReturnValueNone)
	if changed, ok := refusal(err); ok {
		return "", b.conflict(ctx, r.Key, changed)
	}
	if err != nil {
		return "", err
	}
	return version, nil
}

// GetRecords reads a set, with the service's clock in whole seconds, in one request for each megabyte. It deletes some of
// those that have expired.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	if !strings.HasSuffix(prefix, "/") {
		return nil, time.Time{}, notARecord(prefix)
	}
	if err := b.readyFor(ctx, prefix); err != nil {
		return nil, time.Time{}, err
	}
	var (
		over   []*record
		failed error
	)
	set := recordPlace(prefix)
	last, err := b.query(ctx, set.name, beginning(set.part), func(item values, a *answer) bool {
		if a.date.IsZero() {
			failed = errNoDate
			return false
		}
		var r *record
		r, failed = decodeRecord(item)
		switch {
		case failed != nil:
			return false
		case !strings.HasPrefix(r.Key, prefix) || recordPlace(r.Key) != placeIn(item):
		case r.over(a.date):
			over = append(over, r)
		default:
			list = append(list, r.shown(a.date))
		}
		return true
	})
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case failed != nil:
		return nil, time.Time{}, failed
	case last.date.IsZero():
		return nil, time.Time{}, errNoDate
	}
	b.clean(ctx, over[:min(len(over), cleanMost)])
	return list, last.date, nil
}

// clean deletes records that have expired. What fails is left to a later call.
func (b *Backend) clean(ctx context.Context, over []*record) {
	for _, r := range over {
		err := b.deleteRecord(ctx, r.Key, r.Version)
		if _, changed := refusal(err); err != nil && !changed {
			return // The next would fail as well.
		}
	}
}

// DeleteRecord compares and deletes in one request.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	if err := b.readyFor(ctx, r.Key); err != nil {
		return err
	}
	err := b.deleteRecord(ctx, r.Key, r.Version)
	changed, ok := refusal(err)
	if !ok {
		return err
	}
	item, a := changed.item, changed.answer
	if len(item) == 0 {
		if item, a, err = b.read(ctx, recordPlace(r.Key)); err != nil || len(item) == 0 {
			return err
		}
	}
	stored, err := decodeRecord(item)
	if err == nil && !stored.over(a.date) {
		err = backend.ErrConflict
	}
	return err
}

// deleteRecord deletes a record that has a version; a missing one is no error.
func (b *Backend) deleteRecord(ctx context.Context, key, version string) error {
	condition := "attribute_not_exists(#name) OR #format = :format AND #version = :version"
	a := ask()
	out, err := b.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                           &b.table,
		Key:                                 recordPlace(key).key(),
		ConditionExpression:                 &condition,
		ExpressionAttributeNames:            namesIn(condition),
		ExpressionAttributeValues:           values{":format": number(int64(format)), ":version": maybe(version)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err != nil {
		return b.failed(ctx, a, err)
	}
	b.heard(a, out.ResultMetadata)
	return nil
}

// conflict says why a record was not stored: there is another version, or something that cannot be read.
func (b *Backend) conflict(ctx context.Context, key string, changed *refusedError) error {
	item := changed.item
	if len(item) == 0 {
		var err error
		if item, _, err = b.read(ctx, recordPlace(key)); err != nil {
			return err
		}
	}
	if len(item) > 0 {
		if _, err := decodeRecord(item); err != nil {
			return err
		}
	}
	return backend.ErrConflict
}

// record is a record as it is stored.
type record struct {
	backend.Record // with the TTL that it was put with

	ends time.Time // zero if it never does
}

// decodeRecord reads the item of a record. The error is of kind Misconfigured.
func decodeRecord(item values) (*record, error) {
	r := reader{item: item, place: placeIn(item)}
	r.checkFormat()
	stored := &record{
		Record: backend.Record{
			Key:     r.text(attrKey),
			Version: r.text(attrVersion),
			Value:   r.bytes(attrValue),
			TTL:     time.Duration(r.number(attrLasts)) * time.Millisecond,
		},
		ends: r.time(attrEnds),
	}
	if r.err == nil && (stored.Key == "" || stored.Version == "" || stored.TTL < 0) {
		r.fail("an attribute is missing or out of range")
	}
	return stored, r.err
}

// over reports whether the end has passed.
func (r *record) over(now time.Time) bool { return !r.ends.IsZero() && !now.Before(r.ends) }

// shown is the record with what is left of its TTL. Its end is late by what is not known of the service's time, and no
// more is left than there ever was.
func (r *record) shown(now time.Time) backend.Record {
	shown := r.Record
	if r.ends.IsZero() {
		shown.TTL = 0
	} else {
		shown.TTL = max(min(r.ends.Sub(now), r.TTL), 1)
	}
	return shown
}

// placeIn is the primary key in an item.
func placeIn(item values) place {
	r := reader{item: item}
	return place{r.text(attrName), r.text(attrPart)}
}

// binary is a value that may be empty, which older endpoints refuse as such.
func binary(v []byte) types.AttributeValue {
	if len(v) == 0 {
		return &types.AttributeValueMemberNULL{Value: true}
	}
	return &types.AttributeValueMemberB{Value: v}
}

// readyFor says why no request may be sent for a record, or for a set.
func (b *Backend) readyFor(ctx context.Context, key string) error {
	if mark := strings.IndexByte(key, '!'); mark < 0 || strings.IndexByte(key[mark:], '/') < 0 {
		return notARecord(key)
	}
	return b.ready(ctx)
}

func notARecord(key string) error {
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}
