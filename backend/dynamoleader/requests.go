package dynamoleader

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// Each of these is one request, or one for each page.

// read reads an item, nil if there is none.
func (b *Backend) read(ctx context.Context, p place) (values, *answer, error) {
	a := ask()
	out, err := b.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &b.table, Key: p.key(), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, a, b.failed(ctx, a, err)
	}
	b.heard(a, out.ResultMetadata)
	return out.Item, a, nil
}

// look reads the item of a key, and returns the newest that is known of it; a missing one is a view without a state.
func (b *Backend) look(ctx context.Context, key string) (view, error) {
	item, a, err := b.read(ctx, leasePlace(key))
	if err != nil {
		return view{}, err
	}
	return b.noted(key, item, a)
}

// noted remembers an item that the service answered. One that cannot be read is not remembered.
func (b *Backend) noted(key string, item values, a *answer) (view, error) {
	if len(item) == 0 {
		b.memory.gone(key, a)
		return view{}, nil
	}
	s, err := decode(item, key)
	if err != nil {
		return view{}, err
	}
	return b.memory.note(s, a), nil
}

// refusedError says that the condition of a write does not hold, and brings the item where the endpoint tells it.
type refusedError struct {
	error

	item   values
	answer *answer
}

func (e *refusedError) Unwrap() error { return e.error }

// refusal reports whether a write was refused by its condition.
func refusal(err error) (*refusedError, bool) { return errors.AsType[*refusedError](err) }

// write changes one item, and returns it as it is then if that is wanted.
func (b *Backend) write(
	ctx context.Context, p place, s *statement, params values, wanted types.ReturnValue,
) (values, *answer, error) {
	a := ask()
	out, err := b.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &b.table,
		Key:                                 p.key(),
		UpdateExpression:                    s.update,
		ConditionExpression:                 s.condition,
		ExpressionAttributeNames:            s.names,
		ExpressionAttributeValues:           s.with(params),
		ReturnValues:                        wanted,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err != nil {
		return nil, a, b.failed(ctx, a, err)
	}
	b.heard(a, out.ResultMetadata)
	return out.Attributes, a, nil
}

// change changes the item of a key, and returns what it says then.
func (b *Backend) change(ctx context.Context, key string, s *statement, c change) (*state, error) {
	item, a, err := b.write(ctx, leasePlace(key), s, c.params, types.ReturnValueAllNew)
	if err != nil {
		return nil, err
	}
	written, err := decode(item, key)
	if err != nil {
		return nil, err
	}
	b.memory.note(written, a)
	return written, nil
}

// end changes the item of a key so that nobody has it.
func (b *Backend) end(ctx context.Context, key string, s *statement, c change) error {
	_, a, err := b.write(ctx, leasePlace(key), s, c.params, types.ReturnValueNone)
	if err == nil {
		b.memory.gone(key, a)
	}
	return err
}

// after is what became of the item of a key that a write was refused for. Endpoints that do not tell it, because they
// know no ReturnValuesOnConditionCheckFailure or because there is no item, are asked.
func (b *Backend) after(ctx context.Context, key string, r *refusedError) (view, error) {
	if len(r.item) == 0 {
		return b.look(ctx, key)
	}
	return b.noted(key, r.item, r.answer)
}

// query reads all items of a name whose part begins with a prefix, in pages, until each returns false.
func (b *Backend) query(
	ctx context.Context, name, prefix string, each func(item values, a *answer) bool,
) (last *answer, err error) {
	condition := "#name = :name AND begins_with(#part, :part)"
	pages := dynamodb.NewQueryPaginator(b.client, &dynamodb.QueryInput{
		TableName:                 &b.table,
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    &condition,
		ExpressionAttributeNames:  namesIn(condition),
		ExpressionAttributeValues: values{":name": text(name), ":part": text(prefix)},
	})
	for pages.HasMorePages() {
		a := ask()
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.failed(ctx, a, err)
		}
		b.heard(a, page.ResultMetadata)
		last = a
		for _, item := range page.Items {
			if !each(item, a) {
				return last, nil
			}
		}
	}
	return last, nil
}

// heard notes the service's time that an answer tells.
func (b *Backend) heard(a *answer, metadata middleware.Metadata) {
	a.date, _ = awsmiddleware.GetServerTime(metadata)
	a.at = time.Now()
	b.clock.note(a)
}

// refused notes the service's time that an error tells. One without an answer, whose status is 0, tells none.
func (b *Backend) refused(a *answer, err error) {
	response, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || response.HTTPStatusCode() == 0 {
		return
	}
	a.date, _ = http.ParseTime(response.Response.Header.Get("Date")) // zero if there is none
	a.at = time.Now()
	b.clock.note(a)
}
