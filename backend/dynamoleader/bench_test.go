package dynamoleader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

// benchDriver returns a driver on a new table, and the client that it was given.
func benchDriver(b *testing.B) (*Backend, *dynamodb.Client) {
	b.Helper()
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(testserver.Dynamo(b).URL()),
		Region:       "eu-central-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
	driver := New(client, &Options{Table: "leader-bench-" + rand.Text()})
	if err := driver.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_, _ = client.DeleteTable(context.WithoutCancel(b.Context()), &dynamodb.DeleteTableInput{TableName: &driver.table})
	})
	return driver, client
}

func benchRequest(key string) backend.Request {
	return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
}

// raw sends a statement of the driver by the raw client.
func raw(ctx context.Context, client *dynamodb.Client, table, key string, s *statement, c change, wanted types.ReturnValue) error {
	_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &table, Key: leasePlace(key).key(),
		UpdateExpression: s.update, ConditionExpression: s.condition,
		ExpressionAttributeNames: s.names, ExpressionAttributeValues: s.with(c.params),
		ReturnValues:                        wanted,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	return err
}

// rawTerm returns a term of a key with the driver's own two statements, sent by the raw client. What they are given is
// made before, but for the token.
func rawTerm(b *testing.B, driver *Backend, client *dynamodb.Client, key string) func(ctx context.Context) error {
	b.Helper()
	c, err := driver.grant(b.Context(), benchRequest(key))
	if err != nil {
		b.Fatal(err)
	}
	fence := uint64(time.Now().UnixMicro())
	c.params[":floor"] = number(fence)
	return func(ctx context.Context) error {
		c.params[":token"] = text(rand.Text())
		if err := raw(ctx, client, driver.table, key, acquire, c, types.ReturnValueAllNew); err != nil {
			return err
		}
		fence++
		c.params[":fence"] = number(fence)
		return raw(ctx, client, driver.table, key, release, c, types.ReturnValueNone)
	}
}

// BenchmarkAcquireRelease compares the driver with its own two statements sent by the raw client, and with a bare pair of
// a conditional put and a conditional delete, which have no fence.
func BenchmarkAcquireRelease(b *testing.B) {
	driver, client := benchDriver(b)
	bare := leasePlace("bare").key()
	var c benchtest.Contest
	c.Add("bare", func(ctx context.Context) error {
		item := values{attrName: bare[attrName], attrPart: bare[attrPart], attrToken: text(rand.Text())}
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &driver.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(#name)"),
			ExpressionAttributeNames: map[string]string{"#name": attrName},
		}); err != nil {
			return err
		}
		_, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &driver.table, Key: bare, ConditionExpression: aws.String("#token = :token"),
			ExpressionAttributeNames:  map[string]string{"#token": attrToken},
			ExpressionAttributeValues: values{":token": item[attrToken]},
		})
		return err
	})
	c.Add("raw", rawTerm(b, driver, client, "raw"))
	c.Add("driver", func(ctx context.Context) error {
		lease, err := driver.TryAcquire(ctx, benchRequest("driver"))
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "raw")
	benchtest.Ratio(b, medians, "raw", "bare")
}

// BenchmarkHeld compares a losing attempt with its statement, and the look where the endpoint tells no item, sent by the
// raw client.
func BenchmarkHeld(b *testing.B) {
	driver, client := benchDriver(b)
	if _, err := driver.TryAcquire(b.Context(), benchRequest("held")); err != nil {
		b.Fatal(err)
	}
	change, err := driver.grant(b.Context(), benchRequest("held"))
	if err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("raw", func(ctx context.Context) error {
		err := raw(ctx, client, driver.table, "held", acquire, change, types.ReturnValueAllNew)
		refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
		if !ok || len(refused.Item) > 0 {
			return err
		}
		_, err = client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &driver.table, Key: leasePlace("held").key(), ConsistentRead: aws.Bool(true),
		})
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		if _, err := driver.TryAcquire(ctx, benchRequest("held")); !errors.Is(err, backend.ErrHeld) {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
	benchtest.Ratio(b, c.Run(b), "driver", "raw")
}

// BenchmarkGroup compares a term of a free slot, in half-taken groups of several sizes, with one of a single lease.
func BenchmarkGroup(b *testing.B) {
	driver, _ := benchDriver(b)
	for _, n := range []int{3, 10, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			group := "group-" + rand.Text()
			held := func() backend.Request {
				req := benchRequest(group)
				req.TTL = time.Hour
				return req
			}
			for range n / 2 {
				if _, _, err := driver.TryAcquireSlot(b.Context(), held(), n); err != nil {
					b.Fatal(err)
				}
			}
			var c benchtest.Contest
			c.Add("single", func(ctx context.Context) error {
				lease, err := driver.TryAcquire(ctx, benchRequest("single"))
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			c.Add("group", func(ctx context.Context) error {
				lease, _, err := driver.TryAcquireSlot(ctx, benchRequest(group), n)
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			benchtest.Ratio(b, c.Run(b), "group", "single")
		})
	}
}
