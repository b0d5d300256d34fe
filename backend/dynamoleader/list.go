package dynamoleader

import (
	"context"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/goleader/leader/backend"
)

// takenItems is the condition that an item is that of a lease which has not been released.
const takenItems = "#lease > :zero"

// List reads the whole table, a megabyte in each request, and is charged for all of it. What cannot be read is passed
// over. The lease of a dead holder that this backend sees for the first time is listed as held for another lease.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		if err := b.list(ctx, prefix, all, yield); err != nil {
			yield(backend.Entry{}, err)
		}
	}
}

// list returns an error that is still to be told.
func (b *Backend) list(ctx context.Context, prefix string, all bool, yield func(backend.Entry, error) bool) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	pages := dynamodb.NewScanPaginator(b.client, &dynamodb.ScanInput{
		TableName:                 &b.table,
		ConsistentRead:            aws.Bool(true),
		FilterExpression:          aws.String(takenItems),
		ExpressionAttributeNames:  namesIn(takenItems),
		ExpressionAttributeValues: values{":zero": number(int64(0))},
	})
	for pages.HasMorePages() {
		a := ask()
		page, err := pages.NextPage(ctx)
		if err != nil {
			return b.failed(ctx, a, err)
		}
		b.heard(a, page.ResultMetadata)
		for _, item := range page.Items {
			if e, ok := b.listed(item, a, prefix, all); ok && !yield(e, nil) {
				return nil
			}
		}
	}
	return nil
}

// listed is the entry of an item, if it is asked for.
func (b *Backend) listed(item values, a *answer, prefix string, all bool) (e backend.Entry, ok bool) {
	key, ok := keyIn(item)
	if !ok || !strings.HasPrefix(key, prefix) {
		return backend.Entry{}, false
	}
	v, err := b.noted(key, item, a)
	switch {
	case err != nil, v.state == nil, v.free():
		return backend.Entry{}, false
	case !all && (v.kept() || !v.taken()):
		return backend.Entry{}, false
	}
	return backend.Entry{Key: key, Holder: v.state.holder(max(v.remaining, 0))}, true
}

// keyIn is the key of the lease in an item; ok is false if it is none of ours.
func keyIn(item values) (key string, ok bool) {
	r := reader{item: item}
	key = r.text(attrKey)
	return key, key != "" && leasePlace(key) == placeIn(item)
}
