package pgleader_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/internal/testserver"
)

// exhaust takes all connections of a pool until the test ends or the function is called.
func exhaust(t testing.TB, pool *pgxpool.Pool) (giveBack func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var taken []*pgxpool.Conn
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, conn)
	}
	giveBack = sync.OnceFunc(func() {
		for _, conn := range taken {
			conn.Release()
		}
	})
	t.Cleanup(giveBack)
	return giveBack
}

// lock locks the row of a key, as a stranger who is idle in a transaction does, until the function is called.
func lock(t testing.TB, d *database, key string) (unlock func()) {
	t.Helper()
	tx, err := d.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	t.Cleanup(unlock)
	if _, err := tx.Exec(t.Context(), "SELECT FROM leader_leases WHERE name = $1 FOR UPDATE", key); err != nil {
		t.Fatal(err)
	}
	return unlock
}

func TestBackend_Renew_GoesOnWhileThePoolIsExhausted(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	pool := d.pool(t, most(2))
	b := d.open(t, pool)
	leases := []backend.Lease{win(t, b, request("a", long)), win(t, b, request("b", long))}
	exhaust(t, pool)
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if _, err := b.TryAcquire(ctx, request("c", long)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an attempt on an exhausted pool: %v", err)
	}
	for range 20 {
		for _, lease := range leases {
			renew(t, lease, 2*long)
		}
	}
	if n := d.owned(t, "%"); n != 1 {
		t.Errorf("%d owned connections, want 1", n)
	}
	release(t, leases[0], 0)
	if n := d.ask(t, "SELECT count(*) FROM leader_leases WHERE token = ''"); n != 1 {
		t.Errorf("%d rows are free after a release, want 1", n)
	}
}

func TestBackend_Renew_UsesThePoolWhereItsOwnConnectionIsBusy(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	const n = 50
	var leases []backend.Lease
	for i := range n {
		leases = append(leases, win(t, b, request(strconv.Itoa(i), long)))
	}
	// Each commit takes a fifth of a second.
	d.execute(t, `CREATE FUNCTION tarry() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$`)
	d.execute(t, "CREATE TRIGGER tarry BEFORE UPDATE ON leader_leases FOR EACH ROW EXECUTE FUNCTION tarry()")
	began := time.Now()
	var renewals sync.WaitGroup
	for _, lease := range leases {
		renewals.Go(func() {
			if err := lease.Renew(t.Context(), 2*long); err != nil {
				t.Errorf("Renew: %v", err)
			}
		})
	}
	renewals.Wait()
	if took, alone := time.Since(began), n*200*time.Millisecond; took > alone/2 {
		t.Errorf("%d renewals took %v, on one connection it would be %v", n, took, alone)
	}
}

func TestBackend_Renew_IsNotHeldUpByALockedRow(t *testing.T) {
	for name, connections := range map[string]int32{"free pool": 8, "exhausted pool": 2} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t, testserver.Postgres(t))
			pool := d.pool(t, most(connections))
			b := d.open(t, pool)
			locked := win(t, b, request("locked", long))
			var others []backend.Lease
			for i := range 20 {
				others = append(others, win(t, b, request(strconv.Itoa(i), long)))
			}
			unlock := lock(t, d, "locked")
			if connections == 2 {
				defer exhaust(t, pool)()
			}
			renew(t, others[0], 2*long) // the own connection is open
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var failed atomic.Int64
			var stubborn sync.WaitGroup
			for range 3 {
				stubborn.Go(func() {
					for ctx.Err() == nil {
						once, end := context.WithTimeout(ctx, 3*time.Second)
						if err := locked.Renew(once, 2*long); err == nil {
							t.Error("a locked row was renewed")
						}
						end()
						failed.Add(1)
					}
				})
			}
			var slowest time.Duration
			for rounds := 0; rounds < 3 || failed.Load() < 3; rounds++ {
				for _, lease := range others {
					began := time.Now()
					renew(t, lease, 2*long)
					slowest = max(slowest, time.Since(began))
				}
			}
			cancel()
			stubborn.Wait()
			t.Logf("the slowest renewal took %v", slowest)
			if slowest > 1500*time.Millisecond {
				t.Errorf("a renewal took %v: it waited for the locked row", slowest)
			}
			unlock()
			renew(t, locked, 2*long)
		})
	}
}

func TestBackend_Renew_OutlivesItsConnection(t *testing.T) {
	b, d := start(t)
	lease := win(t, b, request("a", long))
	for range 5 {
		renew(t, lease, 2*long)
		eventually(t, "the connection is open", func() bool {
			renew(t, lease, 2*long)
			return d.owned(t, "keep") == 1
		})
		d.terminate(t, "keep")
		renew(t, lease, 2*long)
	}
	eventually(t, "the connection is open", func() bool {
		renew(t, lease, 2*long)
		return d.owned(t, "keep") == 1
	})
	d.execute(t, "DELETE FROM leader_leases")
	d.terminate(t, "keep")
	if err := lease.Renew(t.Context(), long); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew of a lease that is gone: %v, want ErrLost", err)
	}
}

// hold holds leases of many names until the test ends, and counts those that were lost and renewals that failed.
func hold(t *testing.T, b backend.Driver, names int, ttl time.Duration) (lost, failed *atomic.Int64) {
	t.Helper()
	lost, failed = new(atomic.Int64), new(atomic.Int64)
	hooks := leader.Hooks{
		Lost:        func(context.Context, leader.LeaseInfo, error) { lost.Add(1) },
		RenewFailed: func(context.Context, leader.LeaseInfo, error) { failed.Add(1) },
	}
	e, err := leader.New(b, leader.WithHooks(hooks), leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	var acquiring sync.WaitGroup
	for worker := range 8 {
		acquiring.Go(func() {
			for i := worker; i < names; i += 8 {
				l, err := e.Acquire(t.Context(), "lease-"+strconv.Itoa(i), leader.WithLeaseTime(ttl), leader.WithWaitTime(patience))
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) })
			}
		})
	}
	acquiring.Wait()
	return lost, failed
}

func TestBackend_MaxConnLifetime_CostsNoLease(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t, func(c *pgxpool.Config) {
		c.MaxConnLifetime, c.HealthCheckPeriod = time.Second, 100*time.Millisecond
	}))
	sees(t, watch(t.Context(), t, b, "watched"), "a free key", backend.Holder.Free)
	listening := d.pid(t, "listen")
	lost, failed := hold(t, b, 20, 3*time.Second)
	opened := make(map[int]struct{})
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		// A connection that was closed is listed until the server gets to it.
		eventually(t, "there are at most two owned connections", func() bool { return d.owned(t, "%") <= 2 })
		opened[d.pid(t, "keep")] = struct{}{}
	}
	if lost.Load() > 0 {
		t.Errorf("%d leases lost", lost.Load())
	}
	if now := d.pid(t, "listen"); now != listening {
		t.Errorf("the connection that listens was %d and is %d", listening, now)
	}
	if len(opened) < 3 {
		t.Errorf("%d connections in 10 s, each of which may live for 1 s", len(opened))
	}
	t.Logf("%d renewals failed over %d connections", failed.Load(), len(opened))
}

func TestBackend_RenewsManyLeasesOverFewConnections(t *testing.T) {
	const names = 2000
	d := newDatabase(t, testserver.Postgres(t))
	name := d.schema + "_few"
	b := d.open(t, d.pool(t, most(2), named(name)))
	watch(t.Context(), t, b, "watched")
	lost, failed := hold(t, b, names, 20*time.Second)
	most := 0
	eventually(t, "all were renewed", func() bool {
		most = max(most, d.sessions(t, name+"%"))
		time.Sleep(100 * time.Millisecond)
		return d.ask(t, "SELECT count(*) FROM leader_leases WHERE renewals > 0") == names
	})
	if lost.Load() > 0 || most > 4 {
		t.Errorf("%d leases lost, up to %d connections", lost.Load(), most)
	}
	t.Logf("%d renewals failed, up to %d connections", failed.Load(), most)
}

func TestBackend_FailingAttempts_LeaveNoConnection(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	win(t, d.open(t, d.pool(t)), request("a", long))
	name := d.schema + "_loser"
	pool := d.pool(t, most(4), named(name))
	b := pgleader.New(pool, nil)
	t.Cleanup(func() { _ = b.Close() })
	var attempts sync.WaitGroup
	for range 10 {
		attempts.Go(func() {
			for range 100 {
				if _, err := b.TryAcquire(t.Context(), request("a", long)); !errors.Is(err, backend.ErrHeld) {
					t.Errorf("TryAcquire: %v", err)
				}
			}
		})
	}
	attempts.Wait()
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	if n := d.sessions(t, name+"%"); n > 4 {
		t.Errorf("%d connections, and the pool has at most 4", n)
	}
	if n := d.sessions(t, name+" leader-%"); n != 0 {
		t.Errorf("%d owned connections, and nothing was held", n)
	}
}

func TestBackend_Close_LeavesNoConnectionAndNoGoroutine(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	pool := d.pool(t)
	d.open(t, pool)
	exhaust(t, pool)()
	before := runtime.NumGoroutine()
	b := pgleader.New(pool, nil)
	lease := win(t, b, request("a", long))
	renew(t, lease, 2*long)
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	sights := watch(t.Context(), t, b, "a")
	sees(t, sights, "the holder", func(h backend.Holder) bool { return h.Fence == lease.Fence() })
	eventually(t, "both connections are open", func() bool {
		renew(t, lease, 2*long)
		return d.owned(t, "%") == 2
	})
	began := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= 2*time.Second {
		t.Errorf("Close took %v: it did not wait for the connections but for its timeout", took)
	}
	if err := result(t, "Close", wait); err == nil {
		t.Error("the waiter was told of a release")
	}
	if last := drain(t, sights); last == nil {
		t.Error("the watcher has ended without an error")
	}
	eventually(t, "the connections are closed", func() bool { return d.owned(t, "%") == 0 })
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	for name, err := range map[string]error{
		"Renew":        lease.Renew(t.Context(), long),
		"Release":      lease.Release(t.Context(), 0),
		"AwaitRelease": b.AwaitRelease(t.Context(), "a", ""),
	} {
		if err == nil {
			t.Errorf("%s works after Close", name)
		}
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool: %v", err)
	}
}

func TestBackend_OwnedConnections_AreMadeAsThoseOfThePool(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	var (
		mu    sync.Mutex
		calls = make(map[string]int)
	)
	note := func(hook, application string) {
		mu.Lock()
		defer mu.Unlock()
		calls[hook+" of"+strings.TrimPrefix(application, d.schema)]++
	}
	application := func(c *pgx.Conn) string { return c.Config().RuntimeParams["application_name"] }
	b := d.open(t, d.pool(t, func(c *pgxpool.Config) {
		c.MinConns, c.MinIdleConns = 2, 2
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			note("BeforeConnect", c.RuntimeParams["application_name"])
			return nil
		}
		c.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
			note("AfterConnect", application(c))
			return nil
		}
		c.PrepareConn = func(_ context.Context, c *pgx.Conn) (bool, error) {
			note("PrepareConn", application(c))
			return true, nil
		}
		c.BeforeClose = func(c *pgx.Conn) { note("BeforeClose", application(c)) }
		c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { note("OnNotification", "") }
	}))
	lease := win(t, b, request("a", long))
	eventually(t, "the own connection is open", func() bool {
		renew(t, lease, 2*long)
		return d.owned(t, "keep") == 1
	})
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	waiting(t, wait)
	renew(t, lease, 2*long)
	release(t, lease, 0)
	woken(t, "the release", wait)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		"BeforeConnect of leader-keep", "AfterConnect of leader-keep", "PrepareConn of leader-keep",
		"BeforeClose of leader-keep", "BeforeConnect of leader-listen", "AfterConnect of leader-listen",
		"PrepareConn of leader-listen", "BeforeClose of leader-listen",
	} {
		if calls[want] == 0 {
			t.Errorf("no call of %s; there were %v", want, calls)
		}
	}
	if n := calls["BeforeConnect of leader-keep"]; n != 1 {
		t.Errorf("%d connections for renewals", n)
	}
}
