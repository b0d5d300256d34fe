package dynamoleader_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/dynamoleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// patience is the watchdog of every wait in these tests.
	patience = 20 * time.Second
	long     = time.Minute
	brief    = 300 * time.Millisecond
)

// client returns a client of an endpoint. Change, which may be nil, changes its options.
func client(t testing.TB, url string, change func(o *dynamodb.Options)) *dynamodb.Client {
	t.Helper()
	o := dynamodb.Options{
		BaseEndpoint: &url,
		Region:       env("AWS_REGION", "eu-central-1"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID:     env("AWS_ACCESS_KEY_ID", "test"),
				SecretAccessKey: env("AWS_SECRET_ACCESS_KEY", "test"),
				SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
			}, nil
		}),
		HTTPClient: ownConnections(t),
	}
	if change != nil {
		change(&o)
	}
	return dynamodb.New(o)
}

// ownConnections is a client whose connections end with the test.
func ownConnections(t testing.TB) *http.Client {
	t.Helper()
	transport := awshttp.NewBuildableClient().GetTransport()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// fresh is the name of a table that nobody has.
func fresh() string { return "leader-test-" + strings.ToLower(rand.Text()) }

// makeTable creates a table, which ends with the test where it would outlive it.
func makeTable(t testing.TB, server *testserver.Server) (name string) {
	t.Helper()
	name = fresh()
	c := client(t, server.URL(), nil)
	if err := dynamoleader.New(c, &dynamoleader.Options{Table: name}).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !server.Owned() {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
			defer cancel()
			_, _ = c.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
		})
	}
	return name
}

// table is a table on a server, as a test sees it.
type table struct {
	server *testserver.Server
	name   string
	client *dynamodb.Client
}

// newTable makes a table.
func newTable(t testing.TB) *table {
	t.Helper()
	server := testserver.Dynamo(t)
	return &table{server: server, name: makeTable(t, server), client: client(t, server.URL(), nil)}
}

// open returns a backend on the table, with a client of its own.
func (s *table) open(t testing.TB) *dynamoleader.Backend {
	t.Helper()
	return s.openWith(t, nil)
}

func (s *table) openWith(t testing.TB, change func(o *dynamodb.Options)) *dynamoleader.Backend {
	t.Helper()
	return dynamoleader.New(client(t, s.server.URL(), change), &dynamoleader.Options{Table: s.name})
}

// primary is the primary key of an item.
func primary(name, part string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"name": &types.AttributeValueMemberS{Value: name}, "part": &types.AttributeValueMemberS{Value: part},
	}
}

// stored is the item of a key as it is.
func (s *table) stored(t testing.TB, name, part string) map[string]types.AttributeValue {
	t.Helper()
	out, err := s.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &s.name, Key: primary(name, part), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// set changes an attribute of an item behind the driver's back, or makes an item with it.
func (s *table) set(t testing.TB, name, part, attribute string, value types.AttributeValue) {
	t.Helper()
	_, err := s.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.name, Key: primary(name, part),
		UpdateExpression:          aws.String("SET #a = :v"),
		ExpressionAttributeNames:  map[string]string{"#a": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": value},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// remove deletes an item behind the driver's back.
func (s *table) remove(t testing.TB, name, part string) {
	t.Helper()
	_, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.name, Key: primary(name, part)})
	if err != nil {
		t.Fatal(err)
	}
}

// owned is a server that the test may harm.
func owned(t testing.TB) *testserver.Server {
	t.Helper()
	server := testserver.Dynamo(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// fidelity is that of the server under test.
func fidelity(server *testserver.Server) backendtest.Fidelity {
	if server.Owned() {
		return backendtest.Double
	}
	return backendtest.Real
}

func request(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: ttl}
}

func win(t testing.TB, b backend.Driver, req backend.Request) backend.Lease {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", req.Key, err)
	}
	return lease
}

// holder attempts on a held key and returns what the attempt learned.
func holder(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	_, err := b.TryAcquire(t.Context(), request(key, long))
	held, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("TryAcquire(%q): %v, want a HeldError", key, err)
	}
	return held.Holder
}

func inspect(t testing.TB, b backend.Driver, key string) backend.Holder {
	t.Helper()
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect(%q): %v", key, err)
	}
	return h
}

func renew(t testing.TB, lease backend.Lease, ttl time.Duration) {
	t.Helper()
	if err := lease.Renew(t.Context(), ttl); err != nil {
		t.Fatalf("Renew(%v): %v", ttl, err)
	}
}

func release(t testing.TB, lease backend.Lease, keep time.Duration) {
	t.Helper()
	if err := lease.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release(%v): %v", keep, err)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func kind(t testing.TB, what string, err error, want backend.Kind) {
	t.Helper()
	if got := backend.KindOf(err); err == nil || got != want {
		t.Errorf("%s: %v, of kind %v, want kind %v", what, err, got, want)
	}
}
