package sqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// calm keeps the server from writing on its own account.
var calm = testserver.PostgresConfig(
	"fsync = on", "autovacuum = off", "checkpoint_timeout = 1h", "wal_level = minimal", "max_wal_senders = 0", "wal_writer_delay = 10s",
)

// written is what attempts may have made the server do.
type written struct {
	updated, inserted, deleted, dead int64 // rows of the table
	transactions                     int64 // that got a number, because they wrote
	wal                              int64 // bytes
}

// writtenTo waits until all sessions but the one that asks are over, since they count for themselves before.
func writtenTo(t testing.TB, admin *sql.DB, schema string) (w written) {
	t.Helper()
	eventually(t, "the sessions have ended", func() bool {
		return queryOne[int](t, admin, `SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`) == 0
	})
	err := admin.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_ins, n_tup_del, n_dead_tup,
		pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_wal_insert_lsn() - '0/0'
		FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'leader_leases'`, schema).
		Scan(&w.updated, &w.inserted, &w.deleted, &w.dead, &w.transactions, &w.wal)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPostgreSQL_LosingAttemptsWriteNothing(t *testing.T) {
	const attempts, slotAttempts, clients, slots = 10_000, 1000, 4, 3
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		d.admin.SetMaxOpenConns(1)
		lose := func(attempts, slotAttempts int) {
			db := d.connect(t, d.server.Addr(), schema)
			b := sqlleader.New(db, d.dialect, nil)
			var running sync.WaitGroup
			for range clients {
				running.Go(func() {
					for range attempts / clients {
						loses(t, func(req backend.Request) error { _, err := b.TryAcquire(t.Context(), req); return err })
					}
					for range slotAttempts / clients {
						loses(t, func(req backend.Request) error { _, _, err := b.TryAcquireSlot(t.Context(), req, slots); return err })
					}
				})
			}
			running.Wait()
			if err := errors.Join(b.Close(), db.Close()); err != nil {
				t.Error(err)
			}
		}
		b, db := d.open(t, schema)
		held := win(t, b, request("job", long))
		for range slots {
			if _, _, err := b.TryAcquireSlot(t.Context(), request("job", long), slots); err != nil {
				t.Fatal(err)
			}
		}
		if err := held.Renew(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		lose(clients, clients) // whoever reads a page first may tidy it
		before := writtenTo(t, d.admin, schema)
		if before.updated == 0 || before.inserted == 0 {
			t.Fatalf("nothing is counted: %+v", before)
		}
		lose(attempts, slotAttempts)
		after := writtenTo(t, d.admin, schema)
		if grown := after.wal - before.wal; grown >= 1024 {
			t.Errorf("the WAL has grown by %d bytes", grown)
		}
		before.wal, after.wal = 0, 0
		if after != before {
			t.Errorf("before %+v, after %+v", before, after)
		}
	}, calm)
}

// loses makes an attempt that has to lose.
func loses(t testing.TB, attempt func(req backend.Request) error) {
	t.Helper()
	if err := attempt(request("job", long)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("%v, want that another holds it", err)
	}
}

// Who ends a lease need not wait for the disk; who gets or keeps one, or leaves it kept, has to.
func TestPostgreSQL_WaitsForTheDiskWhereALeaseDependsOnIt(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		b, db := d.open(t, d.newSchema(t))
		db.SetMaxOpenConns(1) // so that what one statement sets could harm the next
		d.admin.SetMaxOpenConns(1)
		var l backend.Lease
		acquire := func() (err error) {
			l, err = b.TryAcquire(t.Context(), request("job", long))
			return err
		}
		abandoned := request("job", long)
		for _, step := range []struct {
			name    string
			durable bool
			do      func() error
		}{
			{"acquire", true, acquire},
			{"release", false, func() error { return l.Release(t.Context(), 0) }},
			{"acquire again", true, acquire},
			{"renew", true, func() error { return l.Renew(t.Context(), long) }},
			{"break", true, func() error { return b.Break(t.Context(), "job", l.Fence()) }},
			{"acquire a third time", true, acquire},
			{"release and keep", true, func() error { return l.Release(t.Context(), time.Millisecond) }},
			{"acquire what is abandoned", true, func() error {
				eventually(t, "the name is not kept", func() bool { return inspect(t, b, "job").Free() })
				_, err := b.TryAcquire(t.Context(), abandoned)
				return err
			}},
			{"abandon", false, func() error { return b.Abandon(t.Context(), abandoned) }},
			{"abandon nothing", false, func() error { return b.Abandon(t.Context(), request("new", long)) }},
			{"acquire at last", true, acquire},
		} {
			before := queryOne[string](t, d.admin, "SELECT pg_current_wal_insert_lsn()")
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			// Everything up to the end of the WAL is on disk exactly if the commit was waited for.
			durable := queryOne[bool](t, d.admin, "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()")
			if wrote := queryOne[bool](t, d.admin, fmt.Sprintf("SELECT pg_current_wal_insert_lsn() > '%s'", before)); !wrote {
				t.Errorf("%s wrote nothing", step.name)
			}
			if durable != step.durable {
				t.Errorf("%s: on disk %v, want %v", step.name, durable, step.durable)
			}
		}
	}, calm)
}

func TestPostgreSQL_AMinimumLeaseOutlivesACrashOfTheServer(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		b, db := d.open(t, d.newSchema(t))
		l := win(t, b, request("job", long))
		if err := l.Release(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		d.restart(t, db)
		if h := inspect(t, b, "job"); !h.Kept || h.Fence != l.Fence() {
			t.Errorf("after the crash: %+v", h)
		}
	}, calm)
}

// What a release wrote may be forgotten: the lease ends by its time then, and its token may still release it.
func TestPostgreSQL_AReleaseThatACrashForgetsMayBeRepeated(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		b, db := d.open(t, d.newSchema(t))
		l := win(t, b, request("job", long))
		if err := l.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		d.restart(t, db)
		if h := inspect(t, b, "job"); h.Fence != l.Fence() {
			t.Errorf("after the crash: %+v, want the lease of which the end was not on disk", h)
		}
		if err := l.Release(t.Context(), 0); err != nil {
			t.Error(err)
		}
		if next := win(t, b, request("job", long)); next.Fence() <= l.Fence() {
			t.Errorf("fence %d follows %d", next.Fence(), l.Fence())
		}
	}, calm)
}
