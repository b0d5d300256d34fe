package mysqlleader_test

import (
	"bytes"
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// endless is a configuration in which nothing but contexts ends a call.
func endless(c *mysql.Config) { c.Timeout, c.ReadTimeout, c.WriteTimeout = 0, 0, 0 }

// behind returns a backend whose connections go through a proxy, and one in the same schema whose do not.
func behind(t testing.TB, settings ...setting) (b, other *mysqlleader.Backend, proxy *netfault.Proxy) {
	t.Helper()
	server := testserver.MariaDB(t)
	schema := newSchema(t, server)
	proxy = proxyOf(t, server)
	b = migrated(t, connect(t, server, append(settings, in(schema), at(proxy.Addr()))...))
	return b, open(t, connect(t, server, in(schema)), nil), proxy
}

// calls are all methods of b that ask the server.
func calls(b *mysqlleader.Backend, lease backend.Lease) map[string]func(ctx context.Context) error {
	record := backend.Record{Key: "a!run/1", Value: []byte("x")}
	return map[string]func(ctx context.Context) error{
		"TryAcquire":     func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("b", long)); return err },
		"TryAcquireSlot": func(ctx context.Context) error { _, _, err := b.TryAcquireSlot(ctx, request("g", long), 3); return err },
		"Inspect":        func(ctx context.Context) error { _, err := b.Inspect(ctx, "a"); return err },
		"Renew":          func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":        func(ctx context.Context) error { return lease.Release(ctx, 0) },
		"Abandon":        func(ctx context.Context) error { return b.Abandon(ctx, request("b", long)) },
		"Break":          func(ctx context.Context) error { return b.Break(ctx, "a", lease.Fence()) },
		"PutRecord":      func(ctx context.Context) error { _, err := b.PutRecord(ctx, record); return err },
		"GetRecords":     func(ctx context.Context) error { _, _, err := b.GetRecords(ctx, "a!run/"); return err },
		"DeleteRecord":   func(ctx context.Context) error { return b.DeleteRecord(ctx, record) },
		"Advise":         func(ctx context.Context) error { _, err := b.Advise(ctx); return err },
		"Migrate":        b.Migrate,
		"List": func(ctx context.Context) error {
			for _, err := range b.List(ctx, "", true) {
				return err
			}
			return nil
		},
	}
}

// endsWith checks that all calls at once end soon after their context.
func endsWith(t *testing.T, calls map[string]func(ctx context.Context) error) {
	t.Helper()
	var running sync.WaitGroup
	defer running.Wait()
	for name, call := range calls {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			began := time.Now()
			err := call(ctx)
			if !timedOut(err) {
				t.Errorf("%s: %v, want an error that wraps the context's", name, err)
			}
			kind(t, name, err, backend.Unavailable)
			if took := time.Since(began); took > patience/4 {
				t.Errorf("%s took %v: it went on after its context had ended", name, took)
			}
		})
	}
}

func TestBackend_FrozenConnection_EndsEveryCallWithItsContext(t *testing.T) {
	b, _, proxy := behind(t, endless)
	if b.Limits().Blocking {
		t.Error("limits say that calls may outlive their contexts")
	}
	lease := win(t, b, request("a", long))
	proxy.Freeze()
	endsWith(t, calls(b, lease)) // more of them than there are connections, which have to be made first
	endsWith(t, calls(b, lease)) // and then cannot be made
	proxy.Thaw()
	eventually(t, "the handle works again", func() bool { return lease.Renew(t.Context(), long) == nil })
}

// A connection that a handle makes ahead, for calls that wait for one, has no context.
func TestBackend_SilentNetwork_OccupiesNoConnectionForLongerThanTheTimeouts(t *testing.T) {
	server := testserver.MariaDB(t)
	proxy := proxyOf(t, server)
	db := connect(t, server, at(proxy.Addr()), func(c *mysql.Config) {
		c.Timeout, c.ReadTimeout = 10*brief, 10*brief
	})
	db.SetMaxOpenConns(1)
	b := open(t, db, nil)
	proxy.Drop()
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			_, err := b.Inspect(ctx, "a")
			kind(t, "Inspect", err, backend.Unavailable)
		})
	}
	waiting.Wait()
	eventually(t, "no connection is left", func() bool { return db.Stats().OpenConnections == 0 })
}

func TestBackend_LostReply_IsRepeatedWithoutHarm(t *testing.T) {
	b, other, proxy := behind(t)
	lose := func(mark string, call func(ctx context.Context) error) {
		t.Helper()
		trap := proxy.SwallowReply(func(chunk []byte) bool { return bytes.Contains(chunk, []byte(mark)) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*brief)
		defer cancel()
		if err := call(ctx); !timedOut(err) {
			t.Errorf("the reply came: %v", err)
		}
		if err := trap.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	req := request("a", long)
	release(t, win(t, b, request("a", long)), 0) // so that all is prepared
	lose(req.Token, func(ctx context.Context) error { _, err := b.TryAcquire(ctx, req); return err })
	fence := inspect(t, other, "a").Fence
	lease := win(t, b, req)
	if lease.Fence() != fence {
		t.Errorf("fence %d after the repeat, %d before", lease.Fence(), fence)
	}
	renew(t, lease)
	lose(req.Token, func(ctx context.Context) error { return lease.Renew(ctx, 2*long) })
	renew(t, lease)
	lose(req.Token, func(ctx context.Context) error { return lease.Release(ctx, time.Minute) })
	release(t, lease, time.Minute)
	if h := inspect(t, other, "a"); !h.Kept || h.Remaining > time.Minute {
		t.Errorf("after the releases: %+v", h)
	}
}

// An attempt whose call has ended may still be on its way, or wait in the server.
func TestBackend_Abandon_StopsAttemptsThatArriveLater(t *testing.T) {
	const others = 63
	b, other, proxy := behind(t)
	release(t, win(t, b, request("a", long)), 0)
	for range 3 {
		late := request("a", long)
		trap := proxy.HoldRequest(func(chunk []byte) bool { return bytes.Contains(chunk, []byte(late.Token)) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*brief)
		_, err := b.TryAcquire(ctx, late)
		cancel()
		if !timedOut(err) {
			t.Fatalf("TryAcquire: %v", err)
		}
		if err := trap.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, req := range append([]backend.Request{late}, make([]backend.Request, others)...) {
			if req.Key == "" {
				req = request("a", long)
			}
			if err := other.Abandon(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		release(t, win(t, other, request("a", long)), 0)
		if err := trap.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The statement is at the server, and one that comes after it on the same row ends after it.
		for range 5 {
			time.Sleep(brief / 5)
			if h := inspect(t, other, "a"); !h.Free() {
				t.Fatalf("the late attempt opened a term: %+v", h)
			}
		}
	}
}

func TestBackend_KilledConnection_CostsNothing(t *testing.T) {
	b, db, _ := startOwned(t)
	lease := win(t, b, request("a", long))
	for range 10 {
		killConnections(t, db)
		renew(t, lease)
		killConnections(t, db)
		refused(t, b, "a")
		killConnections(t, db)
		if inspect(t, b, "a").Fence != lease.Fence() {
			t.Fatal("another lease")
		}
	}
}

// killConnections kills all connections but those of db, and waits for their ends.
func killConnections(t testing.TB, db *sql.DB) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, "the connections are gone", func() bool {
		ids := others(t, conn)
		for _, id := range ids {
			_, _ = conn.ExecContext(t.Context(), "KILL CONNECTION ?", id) // it may be gone already
		}
		return len(ids) == 0
	})
}

// others are the ids of all connections but conn.
func others(t testing.TB, conn *sql.Conn) (ids []int64) {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(),
		"SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER = 'leader'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestBackend_IdleConnectionsThatTheServerCloses_CostNothing(t *testing.T) {
	b, db, _ := startOwned(t, testserver.MariaDBConfig("wait_timeout=2"))
	lease := win(t, b, request("a", long))
	for range 2 {
		var busy sync.WaitGroup
		for range connections {
			busy.Go(func() { inspect(t, b, "a") })
		}
		busy.Wait()
		// The look itself is one.
		eventually(t, "the server has closed idle connections", func() bool {
			return status(t, db, "Threads_connected") == 1
		})
		for range connections {
			busy.Go(func() {
				if err := lease.Renew(t.Context(), long); err != nil {
					t.Errorf("Renew: %v", err)
				}
			})
		}
		busy.Wait()
		refused(t, b, "a")
	}
}

func TestBackend_Restart_ForgetsNoLease(t *testing.T) {
	b, _, server := startOwned(t)
	lease := win(t, b, request("a", long))
	kept := win(t, b, request("kept", long))
	release(t, kept, long)
	server.Restart(t)
	eventually(t, "the server answers", func() bool {
		_, err := b.Inspect(t.Context(), "a")
		if err != nil {
			kind(t, "Inspect", err, backend.Unavailable)
		}
		return err == nil
	})
	renew(t, lease)
	if h := refused(t, b, "a"); h.Fence != lease.Fence() {
		t.Errorf("fence %d, then %d", lease.Fence(), h.Fence)
	}
	if h := refused(t, b, "kept"); !h.Kept {
		t.Errorf("%+v is not kept", h)
	}
}

func TestBackend_FailingAcquisitions_LeaveNoConnection(t *testing.T) {
	const attempts = 1000
	b, db, server := startOwned(t)
	win(t, b, request("held", long))
	handle := connect(t, server)
	failing := open(t, handle, &mysqlleader.Options{Table: "missing"})
	nobody := connect(t, server, func(c *mysql.Config) { c.Passwd = "wrong" })
	denied := open(t, nobody, nil)
	var failures sync.WaitGroup
	for range connections {
		failures.Go(func() {
			for i := range attempts / connections {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
				_, err := failing.TryAcquire(ctx, request("a", long))
				cancel()
				if err == nil {
					t.Error("an attempt on a missing table succeeded")
				}
				if _, err := denied.TryAcquire(t.Context(), request("a", long)); err == nil {
					t.Error("an attempt with a wrong password succeeded")
				}
			}
		})
	}
	failures.Wait()
	for name, handle := range map[string]*sql.DB{"failing": handle, "denied": nobody} {
		eventually(t, name+": no connection is in use", func() bool { return handle.Stats().InUse == 0 })
		if n := handle.Stats().OpenConnections; n > connections {
			t.Errorf("%s: %d connections are open", name, n)
		}
		if err := handle.Close(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "only our own connections are left at the server", func() bool {
		return status(t, db, "Threads_connected") <= 2
	})
}
