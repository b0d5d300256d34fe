package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/dynamoleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// dynamoTable is where everybody works.
const dynamoTable = "leader-bench"

// Dynamo is a DynamoDB, or what stands in for one, with everybody who works on it.
type Dynamo struct {
	server *testserver.Server
	client *dynamodb.Client
}

// NewDynamo starts the stand-in for DynamoDB, with a table; an endpoint that [testserver.DynamoURLEnv] names is taken as
// it is, and keeps the table.
func NewDynamo(t testserver.TB) *Dynamo {
	t.Helper()
	d := &Dynamo{server: testserver.Dynamo(t)}
	d.client = d.dial()
	if err := d.driver(d.client).Migrate(t.Context()); err != nil {
		t.Fatalf("%v", err)
	}
	return d
}

func (d *Dynamo) dial(more ...func(stack *middleware.Stack) error) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(d.server.URL()),
		Region:       setting("AWS_REGION", "eu-central-1"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID:     setting("AWS_ACCESS_KEY_ID", "bench"),
				SecretAccessKey: setting("AWS_SECRET_ACCESS_KEY", "bench"),
				SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
			}, nil
		}),
		APIOptions: more,
	})
}

// setting is an environment variable, or what it is by default.
func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func (d *Dynamo) driver(client *dynamodb.Client) *dynamoleader.Backend {
	return dynamoleader.New(client, &dynamoleader.Options{Table: dynamoTable})
}

// Run returns a RunIfLeader.
func (d *Dynamo) Run(t testserver.TB) Op { return run(newElector(t, d.driver(d.client)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (d *Dynamo) Skip(t testserver.TB) Op {
	hold(t, newElector(t, d.driver(d.client)), "skip")
	return skip(newElector(t, d.driver(d.client)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a client of its own. The waiter polls.
func (d *Dynamo) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, d.driver(d.dial()), polling{d.driver(d.dial())}, 0).pass
}

// polling is a driver that is asked each time whether it can wait, so that the beginning of a wait is known.
type polling struct{ backend.Driver }

var errPolls = errors.New("this store tells nobody")

// Unwrap implements [backend.Unwrapper].
func (p polling) Unwrap() backend.Driver { return p.Driver }

// AwaitRelease implements [backend.Waiter].
func (p polling) AwaitRelease(context.Context, string, string) error { return errPolls }

// Floor returns the requests of the driver for a RunIfLeader, by the raw client.
func (d *Dynamo) Floor(t testserver.TB) Op {
	sent := d.record(t, "floor", func(b backend.Driver, req backend.Request) (uint64, error) {
		l, err := b.TryAcquire(t.Context(), req)
		if err != nil {
			return 0, err
		}
		return l.Fence(), l.Release(t.Context(), 0)
	})
	return func(ctx context.Context) error {
		token, fence := rand.Text(), ""
		for _, r := range sent {
			answer, err := r.send(ctx, d.client, token, fence)
			if err != nil {
				return err
			}
			if n, ok := answer["fence"].(*types.AttributeValueMemberN); ok {
				fence = n.Value
			}
		}
		if fence == "" {
			return errRefused
		}
		return nil
	}
}

// SkipFloor returns the requests of the driver for an acquisition, while another holds the key, by the raw client.
func (d *Dynamo) SkipFloor(t testserver.TB) Op {
	const key = "skip floor"
	hold(t, newElector(t, d.driver(d.client)), key)
	sent := d.record(t, key, func(b backend.Driver, req backend.Request) (uint64, error) {
		_, err := b.TryAcquire(t.Context(), req)
		if errors.Is(err, backend.ErrHeld) {
			err = nil
		}
		return 0, err
	})
	return func(ctx context.Context) error {
		token := rand.Text()
		for _, r := range sent {
			_, err := r.send(ctx, d.client, token, "")
			if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); err != nil && !refused {
				return err
			}
		}
		return nil
	}
}

// Naive returns a conditional put of a lock that has run out, and a conditional delete, by a client's clock. They give no
// fence.
func (d *Dynamo) Naive(testserver.TB) Op {
	table := aws.String(dynamoTable)
	key := func() map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"name": text("naive"), "part": text("lock")}
	}
	return func(ctx context.Context) error {
		now, item := time.Now(), key()
		item["token"], item["until"] = text(rand.Text()), millis(now.Add(lease))
		_, err := d.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: table, Item: item,
			ConditionExpression:       aws.String("attribute_not_exists(#name) OR #until < :now"),
			ExpressionAttributeNames:  map[string]string{"#name": "name", "#until": "until"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":now": millis(now)},
		})
		if err != nil {
			return err
		}
		_, err = d.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: table, Key: key(),
			ConditionExpression:       aws.String("#token = :token"),
			ExpressionAttributeNames:  map[string]string{"#token": "token"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":token": item["token"]},
		})
		return err
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func millis(at time.Time) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(at.UnixMilli(), 10)}
}

// dynamoRequest is one of the driver's, with the token and the fence that were recorded.
type dynamoRequest struct {
	input        any
	token, fence string
}

// send sends the request with another token and fence, and returns the item in the answer.
func (r *dynamoRequest) send(
	ctx context.Context, client *dynamodb.Client, token, fence string,
) (map[string]types.AttributeValue, error) {
	switch input := r.input.(type) {
	case *dynamodb.UpdateItemInput:
		changed := *input
		changed.ExpressionAttributeValues = maps.Clone(input.ExpressionAttributeValues)
		for name, value := range changed.ExpressionAttributeValues {
			switch v := value.(type) {
			case *types.AttributeValueMemberS:
				if v.Value == r.token {
					changed.ExpressionAttributeValues[name] = text(token)
				}
			case *types.AttributeValueMemberN:
				if fence != "" && v.Value == r.fence {
					changed.ExpressionAttributeValues[name] = &types.AttributeValueMemberN{Value: fence}
				}
			}
		}
		out, err := client.UpdateItem(ctx, &changed)
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	case *dynamodb.GetItemInput:
		out, err := client.GetItem(ctx, input)
		if err != nil {
			return nil, err
		}
		return out.Item, nil
	}
	return nil, fmt.Errorf("the driver sends a %T", r.input)
}

// dynamoRecorder keeps what a client is asked to send.
type dynamoRecorder struct {
	mu   sync.Mutex
	list []any
}

// install puts the recorder into a client.
func (r *dynamoRecorder) install(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("record", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		r.mu.Lock()
		r.list = append(r.list, in.Parameters)
		r.mu.Unlock()
		return next.HandleInitialize(ctx, in)
	}), middleware.Before)
}

// take returns what was sent since the last time.
func (r *dynamoRecorder) take() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// record returns the requests that a driver sends for a call, after the same has been made once. The call returns the
// fence, 0 if there is none.
func (d *Dynamo) record(
	t testserver.TB, key string, call func(backend.Driver, backend.Request) (uint64, error),
) []dynamoRequest {
	t.Helper()
	recorder := new(dynamoRecorder)
	driver := d.driver(d.dial(recorder.install))
	req := backend.Request{Key: key, Token: rand.Text(), Owner: owner, TTL: lease}
	_, err := call(driver, req)
	recorder.take()
	req.Token = rand.Text()
	var fence uint64
	if err == nil {
		fence, err = call(driver, req)
	}
	sent := recorder.take()
	if err == nil && (len(sent) < 1 || len(sent) > 2) {
		err = fmt.Errorf("%d requests, not one or two", len(sent))
	}
	if err != nil {
		t.Fatalf("what the driver sends: %v", err)
	}
	requests := make([]dynamoRequest, len(sent))
	for i, input := range sent {
		requests[i] = dynamoRequest{input, req.Token, strconv.FormatUint(fence, 10)}
	}
	return requests
}
