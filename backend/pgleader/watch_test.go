package pgleader_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// sight is what Watch yields.
type sight struct {
	holder backend.Holder
	err    error
}

// watch runs Watch aside. The channel is closed at its end.
func watch(ctx context.Context, t testing.TB, w backend.Watcher, key string) <-chan sight {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	sights := make(chan sight, 10_000)
	go func() {
		defer close(sights)
		for h, err := range w.Watch(ctx, key) {
			sights <- sight{h, err}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = drain(t, sights)
	})
	return sights
}

// drain returns the last error that a watcher yields.
func drain(t testing.TB, sights <-chan sight) (last error) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case s, ok := <-sights:
			if !ok {
				return last
			}
			last = s.err
		case <-timeout:
			t.Fatal("the watcher does not end")
		}
	}
}

// sees waits until a watcher has seen what is wanted, and returns how long that took.
func sees(t testing.TB, sights <-chan sight, what string, want func(h backend.Holder) bool) time.Duration {
	t.Helper()
	began, timeout := time.Now(), time.After(patience)
	for {
		select {
		case s, ok := <-sights:
			if !ok || s.err != nil {
				t.Fatalf("the watcher has ended with %v, want it to see %s", s.err, what)
			}
			if want(s.holder) {
				return time.Since(began)
			}
		case <-timeout:
			t.Fatalf("the watcher does not see %s", what)
		}
	}
}

func fenced(lease backend.Lease) func(h backend.Holder) bool {
	return func(h backend.Holder) bool { return h.Fence == lease.Fence() && !h.Kept }
}

// exclusive is the process id of the session that holds the presence lock for itself, 0 if none does.
func (d *database) exclusive(t testing.TB) int {
	t.Helper()
	key := sqlleader.Presence(sqlleader.DefaultTable)
	return d.ask(t, `SELECT coalesce(max(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
AND granted AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1`, key)
}

func TestBackend_Watch_SeesEveryKindOfChange(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	holding, b := d.open(t, d.pool(t)), d.open(t, d.pool(t))
	sights := watch(t.Context(), t, b, "a")
	sees(t, sights, "a free key", backend.Holder.Free)
	eventually(t, "the presence is shown", func() bool { return d.exclusive(t) != 0 })

	lease := win(t, holding, request("a", long))
	sees(t, sights, "an acquisition", fenced(lease))
	release(t, lease, 3*brief)
	sees(t, sights, "a kept key", func(h backend.Holder) bool { return h.Kept })
	sees(t, sights, "the end of keep", backend.Holder.Free)
	lease = win(t, holding, request("a", 3*brief))
	sees(t, sights, "a short lease", fenced(lease))
	sees(t, sights, "its expiry", backend.Holder.Free)
	lease = win(t, holding, request("a", long))
	sees(t, sights, "another acquisition", fenced(lease))
	if err := holding.Break(t.Context(), "a", lease.Fence()); err != nil {
		t.Fatal(err)
	}
	sees(t, sights, "a broken lease", backend.Holder.Free)
	lease, slot, err := holding.TryAcquireSlot(t.Context(), request("group", long), 1)
	if err != nil {
		t.Fatal(err)
	}
	sees(t, watch(t.Context(), t, b, backend.SlotKey("group", slot)), "a slot", fenced(lease))
}

func TestBackend_Watch_OutlivesItsConnection(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	holding, b := d.open(t, d.pool(t)), d.open(t, d.pool(t))
	sights := watch(t.Context(), t, b, "a")
	sees(t, sights, "a free key", backend.Holder.Free)
	for range 3 {
		eventually(t, "the presence is shown", func() bool { return d.exclusive(t) != 0 })
		d.terminate(t, "listen")
		lease := win(t, holding, request("a", long))
		sees(t, sights, "an acquisition", fenced(lease))
		release(t, lease, 0)
		sees(t, sights, "a release", backend.Holder.Free)
	}
}

func TestBackend_Watch_EndsWithAnErrorWhileTheServerIsAway(t *testing.T) {
	b, d := start(t)
	sights := watch(t.Context(), t, b, "a")
	sees(t, sights, "a free key", backend.Holder.Free)
	d.server.Kill9(t)
	if err := drain(t, sights); backend.KindOf(err) != backend.Unavailable {
		t.Errorf("Watch ends with %v of kind %v", err, backend.KindOf(err))
	}
	d.server.Restart(t)
	eventually(t, "Watch works again", func() bool {
		for _, err := range b.Watch(t.Context(), "a") {
			return err == nil
		}
		return false
	})
}

// raw listens to the table's channel.
func raw(t testing.TB, d *database) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), d.config(t, d.server.Addr()).ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), "LISTEN "+sqlleader.Channel(sqlleader.DefaultTable)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// notifications returns how many there were up to a mark, which is sent now.
func notifications(t testing.TB, d *database, conn *pgx.Conn) (n int) {
	t.Helper()
	d.execute(t, "SELECT pg_notify($1, 'mark')", sqlleader.Channel(sqlleader.DefaultTable))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		got, err := conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got.Payload == "mark" {
			return n
		}
		n++
	}
}

func TestBackend_AcquisitionsNotifyOnlyWhileSomebodyWatches(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	holding, b := d.open(t, d.pool(t)), d.open(t, d.pool(t))
	conn := raw(t, d)
	acquire := func() (end func()) {
		t.Helper()
		var leases []backend.Lease
		for range 5 {
			l, _, err := holding.TryAcquireSlot(t.Context(), request("group", long), 5)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l, win(t, holding, request("a", long)))
			release(t, leases[len(leases)-1], 0)
		}
		return func() {
			for i := 0; i < len(leases); i += 2 {
				release(t, leases[i], 0)
			}
		}
	}
	win(t, holding, request("waited for", long))
	waiting(t, await(t.Context(), b, "waited for", holder(t, b, "waited for").Seen))
	end := acquire()
	if n := notifications(t, d, conn); n != 5 {
		t.Errorf("%d notifications of 10 acquisitions and 5 releases, with waiters alone", n)
	}
	end()
	if n := notifications(t, d, conn); n != 5 {
		t.Errorf("%d notifications of 5 releases", n)
	}

	ctx, cancel := context.WithCancel(t.Context())
	sees(t, watch(ctx, t, b, "a"), "a free key", backend.Holder.Free)
	eventually(t, "the presence is shown", func() bool { return d.exclusive(t) != 0 })
	notifications(t, d, conn)
	end = acquire()
	if n := notifications(t, d, conn); n != 15 {
		t.Errorf("%d notifications of 10 acquisitions and 5 releases, with a watcher", n)
	}
	end()
	cancel()
	eventually(t, "the presence is hidden", func() bool { return d.exclusive(t) == 0 })
	notifications(t, d, conn)
	acquire()
	if n := notifications(t, d, conn); n != 5 {
		t.Errorf("%d notifications of 10 acquisitions and 5 releases, after the watcher", n)
	}
}

func TestBackend_Watch_IsNoReasonForWaitersToWake(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	sights := watch(t.Context(), t, b, "a")
	sees(t, sights, "a free key", backend.Holder.Free)
	eventually(t, "the presence is shown", func() bool { return d.exclusive(t) != 0 })
	lease := win(t, b, request("a", brief))
	wait := await(t.Context(), b, "a", inspect(t, b, "a").Seen)
	sees(t, sights, "the holder", fenced(lease))
	sees(t, sights, "its expiry", backend.Holder.Free)
	next := win(t, b, request("a", long))
	sees(t, sights, "the next holder", fenced(next))
	waiting(t, wait)
	release(t, next, 0)
	woken(t, "the release", wait)
}

func TestBackend_Watch_GoesOnWhenAnotherWatcherDies(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	holding := d.open(t, d.pool(t))
	survivor := d.open(t, d.pool(t))
	for range 3 {
		proxy := listen(t, d.server)
		mortal := d.open(t, newPool(t, d.config(t, proxy.Addr())))
		first := watch(t.Context(), t, mortal, "a")
		sees(t, first, "a key", func(backend.Holder) bool { return true })
		eventually(t, "the presence is shown", func() bool { return d.exclusive(t) != 0 })
		ctx, leave := context.WithCancel(t.Context())
		second := watch(ctx, t, survivor, "a")
		lease := win(t, holding, request("a", long))
		sees(t, first, "an acquisition", fenced(lease))
		sees(t, second, "an acquisition", fenced(lease))
		release(t, lease, 0)
		sees(t, second, "a release", backend.Holder.Free)

		old := d.exclusive(t)
		proxy.Cut()
		eventually(t, "the other is gone", func() bool { return d.exclusive(t) != old })
		lease = win(t, holding, request("a", long))
		sees(t, second, "an acquisition before or after it takes over", fenced(lease))
		eventually(t, "the survivor shows its presence", func() bool { now := d.exclusive(t); return now != 0 && now != old })
		release(t, lease, 0)
		lease = win(t, holding, request("a", long))
		sees(t, second, "an acquisition after it took over", fenced(lease))
		release(t, lease, 0)
		leave()
		eventually(t, "the presence is hidden", func() bool { return d.exclusive(t) == 0 })
	}
}

// Whoever acquires shares the lock that a watcher wants, and there may always be one.
func TestBackend_Watch_ShowsItsPresenceAmongBusyAcquirers(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	holding, b := d.open(t, d.pool(t, most(16))), d.open(t, d.pool(t))
	ctx, cancel := context.WithCancel(t.Context())
	var acquirers sync.WaitGroup
	for i := range 16 {
		acquirers.Go(func() {
			key := string(rune('a' + i))
			for ctx.Err() == nil {
				lease, err := holding.TryAcquire(ctx, request(key, long))
				if err == nil {
					err = lease.Release(ctx, 0)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("acquire and release: %v", err)
					return
				}
			}
		})
	}
	defer acquirers.Wait()
	defer cancel()
	sights := watch(t.Context(), t, b, "other")
	began := time.Now()
	eventually(t, "the presence is shown", func() bool { return d.exclusive(t) != 0 })
	lease := win(t, b, request("other", long))
	took := sees(t, sights, "the holder", fenced(lease))
	t.Logf("the presence was shown after %v, the acquisition was seen after %v", time.Since(began), took)
}
