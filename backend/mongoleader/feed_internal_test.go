package mongoleader

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

const patience = 20 * time.Second

// monitored returns a backend on db whose change streams come from the bus.
func monitored(t testing.TB, u *bus, url, addr, db string) *Backend {
	t.Helper()
	opts := options.Client().ApplyURI(url).SetHosts([]string{addr}).SetDirect(true).SetMonitor(u.monitor())
	client, err := mongo.Connect(opts)
	if err != nil {
		t.Fatal(err)
	}
	b := New(client.Database(db), nil)
	u.attach(b)
	t.Cleanup(func() {
		_ = b.Close()
		_ = client.Disconnect(context.WithoutCancel(t.Context()))
	})
	return b
}

// onBus returns a backend on a new database of a server that tells of changes by a bus.
func onBus(t testing.TB) (*Backend, *bus) {
	t.Helper()
	server, u := testserver.Mongo(t), newBus()
	return monitored(t, u, server.URL(), server.Addr(), "leader-"+rand.Text()), u
}

func acquire(t testing.TB, b *Backend, key string) backend.Lease {
	t.Helper()
	req := backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: time.Minute}
	l, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", key, err)
	}
	return l
}

func seenOf(t testing.TB, b *Backend, key string) string {
	t.Helper()
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return h.Seen
}

func received(t testing.TB, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatalf("still waiting after %v: %s", patience, what)
		return nil
	}
}

func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

// The cases that are about waiting, on change streams of a double.
func TestBackend_ConformanceOfWaiters(t *testing.T) {
	t.Setenv("LEADER_MATRIX", "")
	server, u := testserver.Mongo(t), newBus()
	var proxy *netfault.Proxy
	c := backendtest.Config{
		Fidelity: backendtest.Double,
		Skip:     make(map[string]string),
		Open: func(t testing.TB, n int) []backend.Driver {
			t.Helper()
			drivers, db := make([]backend.Driver, n), "leader-"+rand.Text()
			for i := range drivers {
				p, err := netfault.Listen(t.Context(), server.Addr())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.Close)
				if i == 0 && strings.Contains(t.Name(), "Partition") {
					proxy = p
				}
				drivers[i] = monitored(t, u, server.URL(), p.Addr(), db)
			}
			return drivers
		},
		Partition: func(testing.TB, int) func() {
			proxy.Freeze()
			return proxy.Thaw
		},
	}
	for name := range backendtest.Cases() {
		if !strings.Contains(name, "Wait") && !strings.Contains(name, "Watch") && !strings.Contains(name, "Wakes") {
			c.Skip[name] = "TestBackend_Conformance runs it"
		}
	}
	backendtest.Run(t, c)
}

func TestBackend_AwaitRelease_SharesOneStream(t *testing.T) {
	b, u := onBus(t)
	l := acquire(t, b, "a")
	seen := seenOf(t, b, "a")
	const waiters = 200
	results := make(chan error, waiters)
	for range waiters {
		go func() { results <- b.AwaitRelease(t.Context(), "a", seen) }()
	}
	await(t, "all listen", func() bool { return listening(b) == waiters })
	if n := u.opened.Load(); n != 1 {
		t.Errorf("%d streams were opened", n)
	}
	if err := l.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for range waiters {
		if err := received(t, "a waiter", results); err != nil {
			t.Errorf("AwaitRelease: %v", err)
		}
	}
	await(t, "the unused stream is closed", func() bool { return u.open() == 0 })
}

func listening(b *Backend) int {
	b.feed.mu.Lock()
	defer b.feed.mu.Unlock()
	n := 0
	for _, list := range b.feed.listeners {
		n += len(list)
	}
	return n
}

func TestBackend_AwaitRelease_IsNotWokenByARenewal(t *testing.T) {
	b, _ := onBus(t)
	l := acquire(t, b, "a")
	seen, result := seenOf(t, b, "a"), make(chan error, 1)
	go func() { result <- b.AwaitRelease(t.Context(), "a", seen) }()
	await(t, "it listens", func() bool { return listening(b) == 1 })
	for range 20 {
		if err := l.Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-result:
		t.Fatalf("AwaitRelease returned %v", err)
	case <-time.After(10 * quietTime):
	}
	if err := l.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := received(t, "the release", result); err != nil {
		t.Errorf("AwaitRelease: %v", err)
	}
}

func TestBackend_AwaitRelease_IsUnsupportedWhereTheServerRefusesStreams(t *testing.T) {
	for name, refusal := range map[string]error{
		"standalone": mongo.CommandError{Code: 40573, Message: "The $changeStream stage is only supported on replica sets"},
		"no right":   mongo.CommandError{Code: 13, Name: "Unauthorized"},
		"stand-in":   mongo.CommandError{Message: "Unknown error: null"},
	} {
		t.Run(name, func(t *testing.T) {
			b, u := onBus(t)
			u.refusal = classify(t.Context(), refusal)
			for range 3 {
				err := b.AwaitRelease(t.Context(), "a", "1")
				if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &mongo.CommandError{}) {
					t.Errorf("AwaitRelease: %v, want an error that wraps ErrUnsupported and the server's", err)
				}
			}
			if n := u.opened.Load(); n != 1 {
				t.Errorf("the server was asked %d times, want that its word counts for a while", n)
			}
			b.feed.without = time.Now() // a while later
			u.refusal = nil
			if err := b.AwaitRelease(t.Context(), "a", "1"); err != nil {
				t.Errorf("AwaitRelease of a free key, with streams: %v", err)
			}
		})
	}
}

func TestBackend_AwaitRelease_AsksAgainAfterAnOutage(t *testing.T) {
	b, u := onBus(t)
	for _, outage := range []error{
		&net.OpError{Op: "read", Err: errBroken},
		mongo.CommandError{Code: 10107, Name: "NotWritablePrimary"},
		mongo.CommandError{Code: 91, Name: "ShutdownInProgress"},
		mongo.CommandError{Labels: []string{"NetworkError"}, Wrapped: errBroken},
	} {
		u.refusal = classify(t.Context(), outage)
		err := b.AwaitRelease(t.Context(), "a", "1")
		if err == nil || errors.Is(err, errors.ErrUnsupported) || backend.KindOf(err) != backend.Unavailable {
			t.Errorf("AwaitRelease: %v, of kind %v", err, backend.KindOf(err))
		}
	}
	// A router says so before the first lease has made the database, and a server whose credentials are being changed.
	for _, code := range []int32{26, 18, 1} {
		u.refusal = classify(t.Context(), mongo.CommandError{Code: code})
		if err := b.AwaitRelease(t.Context(), "a", "1"); err == nil || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("AwaitRelease with code %d: %v, want that it may be asked again", code, err)
		}
	}
	u.refusal = nil
	if err := b.AwaitRelease(t.Context(), "a", "1"); err != nil {
		t.Errorf("AwaitRelease after the outage: %v", err)
	}
}

func TestBackend_AwaitRelease_EndsWithItsStream(t *testing.T) {
	b, u := onBus(t)
	acquire(t, b, "a")
	seen, result := seenOf(t, b, "a"), make(chan error, 1)
	wait := func() {
		go func() { result <- b.AwaitRelease(t.Context(), "a", seen) }()
		await(t, "it listens", func() bool { return listening(b) == 1 && u.open() == 1 })
	}
	for range 3 { // and opens another
		wait()
		u.breakAll(errBroken)
		if err := received(t, "the end of the stream", result); !errors.Is(err, errBroken) {
			t.Errorf("AwaitRelease: %v, want the error of the stream", err)
		}
	}
	wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := received(t, "the close", result); !errors.Is(err, errClosed) {
		t.Errorf("AwaitRelease: %v, want that the backend is closed", err)
	}
	if n := u.open(); n != 0 {
		t.Errorf("%d streams are open after Close", n)
	}
	if err := b.AwaitRelease(t.Context(), "a", seen); !errors.Is(err, errClosed) {
		t.Errorf("AwaitRelease after Close: %v", err)
	}
}

// arrived is the next fence that a watcher saw.
func arrived(t testing.TB, fences <-chan uint64) uint64 {
	t.Helper()
	select {
	case fence := <-fences:
		return fence
	case <-time.After(patience):
		t.Fatalf("the watcher has seen nothing for %v", patience)
		return 0
	}
}

func TestBackend_Watch_SeesAChangeAtOnceByTheStream(t *testing.T) {
	b, u := onBus(t)
	fences := make(chan uint64, 100)
	go func() {
		for h, err := range b.Watch(t.Context(), "a") {
			if err == nil {
				fences <- h.Fence
			}
		}
	}()
	await(t, "the stream is open", func() bool { return u.open() == 1 && listening(b) == 1 })
	var last uint64
	for range 20 {
		l := acquire(t, b, "a")
		began := time.Now()
		for last != l.Fence() {
			last = arrived(t, fences)
		}
		if took := time.Since(began); took > doubtPeriod/2 {
			t.Errorf("the holder was seen after %v, as if without a stream", took)
		}
		if err := l.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackend_Watch_OpensAnotherStreamWhenOneBreaks(t *testing.T) {
	b, u := onBus(t)
	fences := make(chan uint64, 100)
	ended := make(chan error, 1)
	go func() {
		for h, err := range b.Watch(t.Context(), "a") {
			if err != nil {
				ended <- err
				return
			}
			fences <- h.Fence
		}
	}()
	await(t, "the stream is open", func() bool { return u.open() == 1 })
	u.breakAll(errBroken)
	await(t, "another one is open", func() bool { return u.opened.Load() == 2 && u.open() == 1 })
	l := acquire(t, b, "a")
	for arrived(t, fences) != l.Fence() {
		continue
	}
	u.mu.Lock()
	u.refusal = classify(t.Context(), mongo.CommandError{Code: 40573})
	u.mu.Unlock()
	u.breakAll(errBroken)
	if err := received(t, "the end of Watch", ended); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Watch ended with %v, want ErrUnsupported", err)
	}
}

func TestBackend_Watch_GivesUpWhenEveryStreamBreaksAtOnce(t *testing.T) {
	b, u := onBus(t)
	open := b.feed.open
	b.feed.open = func(ctx context.Context) (stream, error) {
		s, err := open(ctx)
		u.breakAll(errBroken)
		return s, err
	}
	var end error
	for _, err := range b.Watch(t.Context(), "a") {
		end = err
	}
	if !errors.Is(end, errBroken) {
		t.Errorf("Watch ended with %v, want the error of the streams", end)
	}
	if n := u.opened.Load(); n < 2 || n > 2*maxBroken {
		t.Errorf("%d streams were opened, want some", n)
	}
}

func TestBackend_Close_WaitsForAStreamThatIsBeingClosed(t *testing.T) {
	b, u := onBus(t)
	closing, closed := make(chan struct{}), make(chan struct{})
	open := b.feed.open
	b.feed.open = func(ctx context.Context) (stream, error) {
		s, err := open(ctx)
		return slowToClose{s, closing, closed}, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	acquire(t, b, "a")
	seen, waiting := seenOf(t, b, "a"), make(chan error, 1)
	go func() { waiting <- b.AwaitRelease(ctx, "a", seen) }()
	await(t, "it listens", func() bool { return listening(b) == 1 && u.open() == 1 })
	cancel()
	if err := received(t, "the end of AwaitRelease", waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("AwaitRelease: %v", err)
	}
	<-closing // as nobody uses it
	ended := make(chan error, 1)
	go func() { ended <- b.Close() }()
	select {
	case err := <-ended:
		t.Errorf("Close leaves a goroutine behind: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(closed)
	if err := received(t, "Close", ended); err != nil {
		t.Error(err)
	}
}

// slowToClose is a stream that tells when it is to be closed, and is when it is told.
type slowToClose struct {
	stream

	closing chan<- struct{}
	closed  <-chan struct{}
}

func (s slowToClose) close(ctx context.Context) {
	close(s.closing)
	<-s.closed
	s.stream.close(ctx)
}

// The pipeline is run on documents that are made like events, because the server under test has no events.
func TestInteresting_LeavesOutRenewals(t *testing.T) {
	b, _ := onBus(t)
	events := b.db.Collection("events")
	updated := func(fields ...any) bson.D {
		return doc("operationType", "update", "updateDescription", doc("updatedFields", doc(fields...)))
	}
	now := time.Now()
	for name, e := range map[string]bson.D{
		"+acquired":       updated(fieldToken, "T", fieldLease, int64(5), fieldFence, int64(2), fieldRenewed, now),
		"+released":       updated(fieldToken, "", fieldSpent, "T", fieldLease, int64(0)),
		"+kept":           updated(fieldToken, "", fieldSpent, "T", fieldLease, int64(9), fieldRenewed, now),
		"+no longer kept": updated(fieldLease, int64(0)),
		"+deleted":        doc("operationType", "delete"),
		"+replaced":       doc("operationType", "replace"),
		"+dropped":        doc("operationType", "drop"),
		"-renewed":        updated(fieldRenewed, now, fieldRenewals, 3),
		"-renewed longer": updated(fieldRenewed, now, fieldRenewals, 3, fieldLease, int64(9)),
		"-spent":          updated(fieldSpent, "T"),
		"-guarded":        updated(fieldGuards, 1),
	} {
		if _, err := events.InsertOne(t.Context(), append(e, doc("_id", name, "documentKey", doc("_id", name))...)); err != nil {
			t.Fatal(err)
		}
	}
	cursor, err := events.Aggregate(t.Context(), interesting)
	if err != nil {
		t.Fatal(err)
	}
	var found []bson.Raw
	if err := cursor.All(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	if len(found) != 7 {
		t.Errorf("%d events are told of, want 7", len(found))
	}
	for _, e := range found {
		if key := e.Lookup("documentKey", "_id").StringValue(); key[0] != '+' {
			t.Errorf("a waiter is told of %s", key[1:])
		}
	}
}
