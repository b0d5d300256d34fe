package pgleader_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/internal/testserver"
)

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

// statements counts what a pool sends.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted has the statements of a pool, and of the connections that a backend on it owns, counted.
func counted(s *statements) func(c *pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.Tracer = s }
}

func TestBackend_AwaitRelease_WakesOnTheEndOfALease(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	holding, b := d.open(t, d.pool(t)), d.open(t, d.pool(t))
	for name, end := range map[string]func(lease backend.Lease, req backend.Request) error{
		"release": func(l backend.Lease, _ backend.Request) error { return l.Release(t.Context(), 0) },
		"keep":    func(l backend.Lease, _ backend.Request) error { return l.Release(t.Context(), brief) },
		"abandon": func(_ backend.Lease, r backend.Request) error { return holding.Abandon(t.Context(), r) },
		"break":   func(l backend.Lease, r backend.Request) error { return holding.Break(t.Context(), r.Key, l.Fence()) },
	} {
		req := request(name, long)
		lease := win(t, holding, req)
		wait := await(t.Context(), b, name, holder(t, b, name).Seen)
		waiting(t, wait)
		renew(t, lease, 2*long)
		release(t, win(t, holding, request(name+" of another", long)), 0)
		waiting(t, wait)
		if err := end(lease, req); err != nil {
			t.Fatal(err)
		}
		woken(t, name, wait)
	}
}

func TestBackend_AwaitRelease_ReturnsAtOnceWhenTheStateIsAnother(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	woken(t, "a key that nobody had", await(t.Context(), b, "none", ""))

	lease := win(t, b, request("a", long))
	old := holder(t, b, "a").Seen
	woken(t, "nothing seen", await(t.Context(), b, "a", ""))
	release(t, lease, 0)
	woken(t, "released meanwhile", await(t.Context(), b, "a", old))
	lease = win(t, b, request("a", long))
	woken(t, "taken by another meanwhile", await(t.Context(), b, "a", old))
	now := holder(t, b, "a").Seen
	release(t, lease, long)
	woken(t, "kept meanwhile", await(t.Context(), b, "a", now))
	woken(t, "kept meanwhile, again", await(t.Context(), b, "a", now))
	kept := holder(t, b, "a").Seen
	eventually(t, "somebody waits for a kept key", func() bool { // the news of the release may come late
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		defer cancel()
		return errors.Is(b.AwaitRelease(ctx, "a", kept), context.DeadlineExceeded)
	})

	win(t, b, request("b", brief))
	gone := inspect(t, b, "b").Seen
	eventually(t, "b expires", func() bool { return inspect(t, b, "b").Free() })
	woken(t, "expired meanwhile", await(t.Context(), b, "b", gone))
}

// A release may come at any moment of the call: before the connection listens, before the look, after it.
func TestBackend_AwaitRelease_MissesNoRelease_ConcurrentSafe(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	for round := range 300 {
		key := "a"
		if round%3 == 0 {
			key = "fresh-" + strconv.Itoa(round)
		}
		waiter := b
		if round%30 == 0 {
			waiter = d.open(t, d.pool(t, most(2)))
		}
		lease := win(t, b, request(key, long))
		wait := await(t.Context(), waiter, key, holder(t, b, key).Seen)
		time.Sleep(time.Duration(round%10) * 100 * time.Microsecond)
		release(t, lease, 0)
		woken(t, "round "+strconv.Itoa(round), wait)
	}
}

func TestBackend_AwaitRelease_SharesOneConnectionAndIdlesForFree(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	var sent statements
	b := d.open(t, d.pool(t, counted(&sent)))
	const names, each = 10, 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	for i := range names {
		win(t, b, request(strconv.Itoa(i), long))
		seen = append(seen, holder(t, b, strconv.Itoa(i)).Seen)
	}
	before := runtime.NumGoroutine()
	var waits sync.WaitGroup
	for i := range names * each {
		waits.Go(func() {
			if err := b.AwaitRelease(ctx, strconv.Itoa(i%names), seen[i%names]); !errors.Is(err, context.Canceled) {
				t.Errorf("AwaitRelease: %v", err)
			}
		})
	}
	settled := func() int64 {
		n := sent.n.Load()
		time.Sleep(brief)
		return sent.n.Load() - n
	}
	eventually(t, "the connection listens", func() bool { return d.owned(t, "listen") == 1 })
	eventually(t, "the looks are done", func() bool { return settled() == 0 })
	if n := d.owned(t, "%"); n != 1 {
		t.Errorf("%d owned connections, want 1", n)
	}
	// The callers' own, the session's, and what the pool and the runtime have.
	if own := runtime.NumGoroutine() - before - names*each; own > 20 {
		t.Errorf("%d goroutines beyond the callers'", own)
	}
	n := sent.n.Load()
	time.Sleep(time.Second)
	if n = sent.n.Load() - n; n > 1 {
		t.Errorf("%d statements in a second of waiting", n)
	}
	cancel()
	waits.Wait()
}

func TestBackend_AwaitRelease_CostsNoStatementOncePassed(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	var sent statements
	holding, b := d.open(t, d.pool(t)), d.open(t, d.pool(t, counted(&sent)))
	lease := win(t, holding, request("a", long))
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	waiting(t, wait)
	for round := range 5 {
		release(t, lease, 0)
		woken(t, "the hand-off", wait)
		lease = win(t, holding, request("a", long))
		seen := holder(t, b, "a").Seen
		before := sent.n.Load()
		wait = await(t.Context(), b, "a", seen)
		waiting(t, wait)
		if n := sent.n.Load() - before; n > 1 || n > 0 && round > 0 { // the first is about the table
			t.Errorf("round %d: waiting cost %d statements", round, n)
		}
	}
}

func TestBackend_AwaitRelease_EndsWithItsConnectionAndWorksAgain(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	lease := win(t, b, request("a", long))
	seen := holder(t, b, "a").Seen
	for range 3 {
		wait := await(t.Context(), b, "a", seen)
		waiting(t, wait)
		d.terminate(t, "listen")
		err := result(t, "the end of the connection", wait)
		if err == nil || backend.KindOf(err) != backend.Unavailable {
			t.Errorf("AwaitRelease over a terminated connection: %v of kind %v", err, backend.KindOf(err))
		}
	}
	wait := await(t.Context(), b, "a", seen)
	waiting(t, wait)
	release(t, lease, 0)
	woken(t, "the release", wait)
}

func TestBackend_AwaitRelease_ClosesItsConnectionWhenNobodyWaits(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	b.Hasten(brief, patience)
	lease := win(t, b, request("a", long))
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		wait := await(ctx, b, "a", holder(t, b, "a").Seen)
		eventually(t, "the connection listens", func() bool { return d.owned(t, "listen") == 1 })
		time.Sleep(5 * brief) // after which an unused one would be closed
		if n := d.owned(t, "listen"); n != 1 {
			t.Errorf("%d connections while somebody waits", n)
		}
		cancel()
		if err := result(t, "its context", wait); !errors.Is(err, context.Canceled) {
			t.Errorf("AwaitRelease: %v", err)
		}
		eventually(t, "the connection is closed", func() bool { return d.owned(t, "listen") == 0 })
	}
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	waiting(t, wait)
	release(t, lease, 0)
	woken(t, "the release", wait)
}

// Channels belong to the database, and tables of the same name in other schemas share them.
func TestBackend_AwaitRelease_IsDeafToOtherSchemas(t *testing.T) {
	server := testserver.Postgres(t)
	mine, other := newDatabase(t, server), newDatabase(t, server)
	a, b := mine.open(t, mine.pool(t)), other.open(t, other.pool(t))
	lease := win(t, a, request("a", long))
	wait := await(t.Context(), a, "a", holder(t, a, "a").Seen)
	waiting(t, wait)
	for range 3 {
		release(t, win(t, b, request("a", long)), 0)
	}
	waiting(t, wait)
	release(t, lease, 0)
	woken(t, "the release", wait)
}

func TestBackend_AwaitRelease_GoesOnAfterTheTableWasMadeAnew(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	for range 3 {
		lease := win(t, b, request("a", long))
		wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
		waiting(t, wait)
		release(t, lease, 0)
		woken(t, "the release", wait)
		d.execute(t, "DROP TABLE leader_leases")
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.owned(t, "listen"); n != 1 {
		t.Errorf("%d connections listen", n)
	}
}

func TestBackend_AwaitRelease_NoticesASilentConnection(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	proxy := listen(t, d.server)
	b := d.open(t, newPool(t, d.config(t, proxy.Addr())))
	b.Hasten(patience, 2*brief)
	win(t, b, request("a", long))
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	time.Sleep(5 * brief)
	waiting(t, wait) // a connection that answers is kept
	proxy.Drop()
	err := result(t, "the silence", wait)
	if err == nil || backend.KindOf(err) != backend.Unavailable {
		t.Errorf("AwaitRelease over a silent connection: %v of kind %v", err, backend.KindOf(err))
	}
}

func TestBackend_AwaitRelease_ReportsWhatKeepsItFromListening(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	pool := d.pool(t, func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			if c.RuntimeParams["application_name"] == d.schema+" leader-listen" {
				c.Password = "wrong"
			}
			return nil
		}
	})
	b := pgleader.New(pool, nil)
	t.Cleanup(func() { _ = b.Close() })
	if err := b.AwaitRelease(t.Context(), "a", "1"); backend.KindOf(err) != backend.Denied {
		t.Errorf("AwaitRelease: %v, want an error of kind Denied", err)
	}
}
