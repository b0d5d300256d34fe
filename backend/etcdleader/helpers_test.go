package etcdleader_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/etcdleader"
	"github.com/goleader/leader/internal/testserver"
)

const (
	long     = 10 * time.Minute // a TTL that no test outlives
	short    = time.Second      // the shortest TTL, which the server makes 2 s
	brief    = 100 * time.Millisecond
	patience = 30 * time.Second // the watchdog of a wait
)

// versions are what the tests of a single node run on.
func versions() map[string][]testserver.EtcdOption {
	return map[string][]testserver.EtcdOption{
		"installed": nil,
		"new":       {testserver.EtcdNew()},
	}
}

func connect(t testing.TB, server *testserver.Server) *clientv3.Client {
	t.Helper()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return connectTo(t, clientv3.Config{Endpoints: []string{u.Host}, Username: u.User.Username(), Password: password})
}

func connectTo(t testing.TB, c clientv3.Config) *clientv3.Client {
	t.Helper()
	c.Logger = zap.NewNop() // it complains of each of many faults
	c.DialTimeout = patience
	c.DialOptions = append(c.DialOptions, etcdleader.QuickReconnect())
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func open(t testing.TB, client *clientv3.Client, opts *etcdleader.Options) *etcdleader.Backend {
	t.Helper()
	b := etcdleader.New(client, opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// start opens a backend on a server of its own.
func start(t testing.TB, opts ...testserver.EtcdOption) (*etcdleader.Backend, *clientv3.Client) {
	t.Helper()
	client := connect(t, ownServer(t, opts...))
	return open(t, client, &etcdleader.Options{Prefix: prefix()}), client
}

// ownServer starts a server that the test may harm, and that nobody else uses.
func ownServer(t testing.TB, opts ...testserver.EtcdOption) *testserver.Server {
	t.Helper()
	server := testserver.Etcd(t, opts...)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}

// prefix is one that no other test uses, should the server be shared.
func prefix() string { return "leader-" + rand.Text() + "/" }

// behind opens a backend whose connections go through a proxy.
func behind(t testing.TB, server *testserver.Server, prefix string) (*etcdleader.Backend, *netfault.Proxy) {
	t.Helper()
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client := connectTo(t, clientv3.Config{Endpoints: []string{proxy.Addr()}})
	return open(t, client, &etcdleader.Options{Prefix: prefix}), proxy
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

// holder makes an attempt that must be refused.
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

func renew(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := l.Renew(t.Context(), long); err != nil {
		t.Fatalf("Renew: %v", err)
	}
}

func release(t testing.TB, l backend.Lease, keep time.Duration) {
	t.Helper()
	if err := l.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func lost(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := l.Renew(t.Context(), long); !errors.Is(err, backend.ErrLost) {
		t.Fatalf("Renew: %v, want ErrLost", err)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

// await starts to wait and returns the result.
func await(ctx context.Context, b backend.Waiter, key, seen string) <-chan error {
	result := make(chan error, 1)
	go func() { result <- b.AwaitRelease(ctx, key, seen) }()
	return result
}

// result receives before the watchdog barks.
func result(t testing.TB, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatalf("still waiting after %v: %s", patience, what)
		return nil
	}
}

func woken(t testing.TB, what string, c <-chan error) {
	t.Helper()
	if err := result(t, what, c); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func waiting(t testing.TB, c <-chan error) {
	t.Helper()
	select {
	case err := <-c:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(brief):
	}
}

// closed waits until a lease says that it is lost.
func closed(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("still open after %v: %s", patience, what)
	}
}

// revision is that of the store.
func revision(t testing.TB, client *clientv3.Client) int64 {
	t.Helper()
	answer, err := client.Get(t.Context(), "none")
	if err != nil {
		t.Fatal(err)
	}
	return answer.Header.Revision
}

// keys are those that begin with prefix.
func keys(t testing.TB, client *clientv3.Client, prefix string) []string {
	t.Helper()
	answer, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, kv := range answer.Kvs {
		list = append(list, strings.TrimPrefix(string(kv.Key), prefix))
	}
	return list
}

// leases are those that the server has.
func leases(t testing.TB, client *clientv3.Client) []clientv3.LeaseID {
	t.Helper()
	answer, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []clientv3.LeaseID
	for _, l := range answer.Leases {
		list = append(list, l.ID)
	}
	return list
}

// leaseOf is the lease that the one key at a place is under.
func leaseOf(t testing.TB, client *clientv3.Client, place string) clientv3.LeaseID {
	t.Helper()
	return clientv3.LeaseID(keyAt(t, client, place).Lease)
}

// keyAt is the one key at a place.
func keyAt(t testing.TB, client *clientv3.Client, place string) *mvccpb.KeyValue {
	t.Helper()
	answer, err := client.Get(t.Context(), place+"\t", clientv3.WithPrefix())
	if err != nil || len(answer.Kvs) != 1 {
		t.Fatalf("what is at %q: %v, %v", place, answer, err)
	}
	return answer.Kvs[0]
}
