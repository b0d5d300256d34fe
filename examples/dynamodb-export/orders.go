package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader"
)

// batchSize is how many orders a file has.
const batchSize = 10

// order is an item of the table, whose partition is "order" and whose sort key is its number.
type order struct {
	Number int
	Total  string
}

// orders is the table with the orders, and with a checkpoint: one item that says up to which order they are exported.
type orders struct {
	client *dynamodb.Client
	table  string
}

type item = map[string]types.AttributeValue

var checkpointKey = item{"kind": text("checkpoint"), "number": number(0)}

// errStale says that a later leader has moved the checkpoint.
var errStale = errors.New("a later leader exports")

// checkpoint returns the number of the last order that is exported.
func (o orders) checkpoint(ctx context.Context) (last int, err error) {
	out, err := o.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &o.table, Key: checkpointKey, ConsistentRead: aws.Bool(true),
	})
	if err != nil || len(out.Item) == 0 {
		return 0, err
	}
	return integer(out.Item, "last")
}

// setCheckpoint moves the checkpoint, unless a later leader has had it: its fence is greater. The condition is part of
// the write, so that it also stops a leader which was frozen after it had looked at its lease.
func (o orders) setCheckpoint(ctx context.Context, held *leader.Lease, last int) error {
	fence := held.Info().Fence
	_, err := o.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &o.table, Key: checkpointKey,
		UpdateExpression:         aws.String("SET #last = :last, #fence = :fence, #node = :node"),
		ConditionExpression:      aws.String("attribute_not_exists(#fence) OR #fence <= :fence"),
		ExpressionAttributeNames: map[string]string{"#last": "last", "#fence": "fence", "#node": "node"},
		ExpressionAttributeValues: item{
			":last": number(last), ":fence": number(fence), ":node": text(held.Info().Node),
		},
	})
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
		return fmt.Errorf("fence %d: %w", fence, errStale)
	}
	return err
}

// after returns the orders that follow a number.
func (o orders) after(ctx context.Context, last int) ([]order, error) {
	out, err := o.client.Query(ctx, &dynamodb.QueryInput{
		TableName: &o.table, Limit: aws.Int32(batchSize), ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#kind = :kind AND #number > :last"),
		ExpressionAttributeNames:  map[string]string{"#kind": "kind", "#number": "number"},
		ExpressionAttributeValues: item{":kind": text("order"), ":last": number(last)},
	})
	if err != nil {
		return nil, err
	}
	batch := make([]order, len(out.Items))
	for i, found := range out.Items {
		if batch[i].Number, err = integer(found, "number"); err != nil {
			return nil, err
		}
		if total, ok := found["total"].(*types.AttributeValueMemberN); ok {
			batch[i].Total = total.Value
		}
	}
	return batch, nil
}

// make creates the table and orders from 1 to count.
func (o orders) make(ctx context.Context, count int) error {
	_, err := o.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &o.table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("kind"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("number"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("kind"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("number"), KeyType: types.KeyTypeRange},
		},
	})
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return err
	}
	wait := dynamodb.NewTableExistsWaiter(o.client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = time.Second })
	if err := wait.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &o.table}, time.Minute); err != nil {
		return err
	}
	for n := 1; n <= count; n++ {
		_, err := o.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &o.table, Item: item{
			"kind": text("order"), "number": number(n), "total": number(n * 100),
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// write makes the file of a batch, whose name is that of its first order. Whoever else writes the same batch writes the
// same file, and nobody sees half of one.
func write(folder string, batch []order) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // The orders are for everybody.
		return err
	}
	f, err := os.CreateTemp(folder, ".batch-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // It is gone if all went well.
	w := csv.NewWriter(f)
	for _, o := range batch {
		if err := w.Write([]string{strconv.Itoa(o.Number), o.Total}); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	w.Flush()
	if err := errors.Join(w.Error(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(folder, fmt.Sprintf("orders-%06d.csv", batch[0].Number)))
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number[T int | uint64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

func integer(from item, name string) (int, error) {
	n, ok := from[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("an item without a number %q", name)
	}
	return strconv.Atoi(n.Value)
}
