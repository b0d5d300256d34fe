package mongoleader_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	// patience is the watchdog of every wait in these tests.
	patience = 20 * time.Second
	long     = time.Minute
	brief    = 300 * time.Millisecond
)

// connect returns a client of the server that ends with the test.
func connect(t testing.TB, server *testserver.Server, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	return connectTo(t, server, server.Addr(), more...)
}

// connectTo is connect by another address, such as that of a proxy.
func connectTo(t testing.TB, server *testserver.Server, addr string, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	opts := options.Client().SetHosts([]string{addr}).SetDirect(true)
	return connectURL(t, server.URL(), append([]*options.ClientOptions{opts}, more...)...)
}

// connectURL is connect by a URL.
func connectURL(t testing.TB, url string, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(append([]*options.ClientOptions{options.Client().ApplyURI(url)}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return client
}

// fresh is the name of a database that nobody has.
func fresh() string { return "leader-" + strings.ToLower(rand.Text()) }

// database returns a new database, which ends with the test.
func database(t testing.TB, server *testserver.Server, client *mongo.Client) *mongo.Database {
	t.Helper()
	db := client.Database(fresh())
	if !server.Owned() {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
			defer cancel()
			_ = db.Drop(ctx)
		})
	}
	return db
}

// open returns a backend on db that ends with the test, before the client does.
func open(t testing.TB, db *mongo.Database, opts *mongoleader.Options) *mongoleader.Backend {
	t.Helper()
	b := mongoleader.New(db, opts)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start returns a backend on a new database, and its collection of leases.
func start(t testing.TB) (*mongoleader.Backend, *mongo.Collection) {
	t.Helper()
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	return open(t, db, nil), db.Collection(mongoleader.DefaultCollection)
}

// owned is a server that the test may harm.
func owned(t testing.TB) *testserver.Server {
	t.Helper()
	server := testserver.Mongo(t)
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

// doc makes a document of names and values in turn.
func doc(pairs ...any) bson.D {
	d := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
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

// stored is the document of a key as it is.
func stored(t testing.TB, leases *mongo.Collection, key string) bson.Raw {
	t.Helper()
	raw, err := leases.FindOne(t.Context(), doc("_id", key)).Raw()
	if err != nil {
		t.Fatal(err)
	}
	return raw
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
