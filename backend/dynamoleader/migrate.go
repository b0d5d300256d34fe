package dynamoleader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/goleader/leader/backend"
)

const (
	// migrateFor is how long [Backend.Migrate] waits for the table at most.
	migrateFor = 5 * time.Minute
	// Between two looks at a table that is being made; the time doubles.
	shortestPoll, longestPoll = 50 * time.Millisecond, 2 * time.Second
)

// Schema is the table that a [Backend] needs, under a name, with capacity on demand. It may be changed before it is
// created: billing, encryption, tags and the rest are the caller's. The attribute expires may be made its TTL.
func Schema(table string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   &table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrName), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrPart), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrName), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrPart), KeyType: types.KeyTypeRange},
		},
	}
}

// Migrate creates the table of [Schema] unless there is one, waits until it can be used, and makes the attribute expires
// its TTL where it has none and the endpoint knows TTLs. A table with another key is an error of kind
// [backend.Misconfigured]. It may be repeated, and called by several processes at once. It needs more rights than
// elections do, see the package comment.
func (b *Backend) Migrate(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	a := ask()
	_, err := b.client.CreateTable(ctx, Schema(b.table))
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return b.failed(ctx, a, err)
	}
	wait := dynamodb.NewTableExistsWaiter(b.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = shortestPoll, longestPoll
	})
	a = ask()
	found, err := wait.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &b.table}, migrateFor)
	if err != nil {
		return b.failed(ctx, a, err)
	}
	if err := checkSchema(found.Table); err != nil {
		return err
	}
	return b.enableTTL(ctx)
}

// checkSchema refuses a table whose key is another.
func checkSchema(table *types.TableDescription) error {
	want := Schema("")
	same := len(table.KeySchema) == len(want.KeySchema)
	for i := 0; same && i < len(want.KeySchema); i++ {
		w, g := want.KeySchema[i], table.KeySchema[i]
		same = aws.ToString(g.AttributeName) == aws.ToString(w.AttributeName) && g.KeyType == w.KeyType
	}
	for _, w := range want.AttributeDefinitions {
		for _, g := range table.AttributeDefinitions {
			if aws.ToString(g.AttributeName) == aws.ToString(w.AttributeName) && g.AttributeType != w.AttributeType {
				same = false
			}
		}
	}
	if same {
		return nil
	}
	return backend.WithKind(fmt.Errorf("table %q has another key than the strings %s (partition) and %s (sort)",
		aws.ToString(table.TableName), attrName, attrPart), backend.Misconfigured)
}

// enableTTL lets DynamoDB delete what is garbage, if it deletes nothing yet.
func (b *Backend) enableTTL(ctx context.Context) error {
	if has, err := b.hasTTL(ctx); has || err != nil {
		return err
	}
	a := ask()
	_, err := b.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &b.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(attrExpires), Enabled: aws.Bool(true),
		},
	})
	if err == nil || isUnknown(err) {
		return nil
	}
	err = b.failed(ctx, a, err)
	// It is refused if another process has done it meanwhile.
	if has, _ := b.hasTTL(ctx); has {
		return nil
	}
	return err
}

// hasTTL reports whether the table needs no TTL: it has one, or the endpoint does not know them.
func (b *Backend) hasTTL(ctx context.Context) (bool, error) {
	a := ask()
	has, err := b.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &b.table})
	switch {
	case isUnknown(err):
		return true, nil
	case err != nil:
		return false, b.failed(ctx, a, err)
	}
	d := has.TimeToLiveDescription
	return d != nil && d.TimeToLiveStatus != types.TimeToLiveStatusDisabled, nil
}

// isUnknown reports whether the endpoint does not know the operation.
func isUnknown(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "UnknownOperationException"
}
