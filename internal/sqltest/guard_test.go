package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// ledger is a database with leases, of which two nodes know, and with a table of the user's.
type ledger struct {
	b, other *sqlleader.Backend
	db       *sql.DB
	insert   string
}

// ledgers are the databases on which Guard is tested.
func ledgers() map[string]func(t testing.TB) *ledger {
	all := map[string]func(t testing.TB) *ledger{"sqlite": sqliteLedger}
	for _, driver := range postgresDrivers {
		all["postgres by "+driver] = func(t testing.TB) *ledger {
			t.Helper()
			d := postgres(t, driver)
			schema := d.newSchema(t)
			g := &ledger{insert: "INSERT INTO ledger VALUES ($1)"}
			g.b, g.db = d.open(t, schema)
			g.other, _ = d.open(t, schema)
			return g
		}
	}
	return all
}

func sqliteLedger(t testing.TB) *ledger {
	t.Helper()
	path := filepath.ToSlash(filepath.Join(t.TempDir(), "ledger.db"))
	node := func() (*sqlleader.Backend, *sql.DB) {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		b := sqlleader.New(db, sqlleader.SQLite(), nil)
		t.Cleanup(func() { _ = b.Close() })
		return b, db
	}
	g := &ledger{insert: "INSERT INTO ledger VALUES (?)"}
	g.b, g.db = node()
	g.other, _ = node()
	if err := g.b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func forEachLedger(t *testing.T, test func(t *testing.T, g *ledger)) {
	t.Helper()
	for name, open := range ledgers() {
		t.Run(name, func(t *testing.T) { test(t, withTable(t, open(t))) })
	}
}

// asideForEachLedger is forEachLedger for a test that mostly waits.
func asideForEachLedger(t *testing.T, test func(t *testing.T, g *ledger)) {
	t.Helper()
	for name, open := range ledgers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, withTable(t, open(t)))
		})
	}
}

func withTable(t testing.TB, g *ledger) *ledger {
	t.Helper()
	execute(t, g.db, "CREATE TABLE ledger (entry VARCHAR(99) PRIMARY KEY)")
	return g
}

// begin returns a transaction that has made an entry, and is undone at the end of the test.
func (g *ledger) begin(t testing.TB, entry string) *sql.Tx {
	t.Helper()
	tx, err := g.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // it may be over
	if _, err := tx.ExecContext(t.Context(), g.insert, entry); err != nil {
		t.Fatal(err)
	}
	return tx
}

// guarded is begin with a transaction that depends on l.
func (g *ledger) guarded(t testing.TB, l *leader.Lease) *sql.Tx {
	t.Helper()
	tx := g.begin(t, "guarded")
	if err := g.b.Guard(t.Context(), tx, l); err != nil {
		t.Fatalf("Guard: %v", err)
	}
	return tx
}

func (g *ledger) entries(t testing.TB) int {
	t.Helper()
	return queryOne[int](t, g.db, "SELECT count(*) FROM ledger")
}

func TestGuard_LetsALeaderCommit(t *testing.T) {
	forEachLedger(t, func(t *testing.T, g *ledger) {
		l := lead(t, elector(t, g.b), "job")
		if err := g.guarded(t, l).Commit(); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		if n := g.entries(t); n != 1 {
			t.Errorf("%d entries", n)
		}
		if h := inspect(t, g.other, l.Info().Key); h.Fence != l.Info().Fence {
			t.Errorf("Guard changed the lease: %+v", h)
		}
	})
}

// zombies are nodes that do not know yet that they have lost their lease, by how they lost it.
var zombies = map[string]func(t *testing.T, g *ledger, l *leader.Lease){
	"whose lease was broken": func(t *testing.T, g *ledger, l *leader.Lease) {
		t.Helper()
		if err := g.other.Break(t.Context(), l.Info().Key, l.Info().Fence); err != nil {
			t.Fatal(err)
		}
	},
	"whose lease is another's": func(t *testing.T, g *ledger, l *leader.Lease) {
		t.Helper()
		if err := g.other.Break(t.Context(), l.Info().Key, l.Info().Fence); err != nil {
			t.Fatal(err)
		}
		win(t, g.other, request(l.Info().Key, long))
	},
	"whose lease has expired": func(t *testing.T, g *ledger, _ *leader.Lease) {
		t.Helper()
		execute(t, g.db, "UPDATE leader_leases SET until = 1")
	},
	"whose row is gone": func(t *testing.T, g *ledger, _ *leader.Lease) {
		t.Helper()
		execute(t, g.db, "DELETE FROM leader_leases")
	},
}

func TestGuard_RefusesAZombie(t *testing.T) {
	forEachLedger(t, func(t *testing.T, g *ledger) {
		for name, lose := range zombies {
			t.Run(name, func(t *testing.T) {
				l := lead(t, elector(t, g.b), name)
				lose(t, g, l)
				if err := l.Err(); err != nil {
					t.Fatalf("it is no zombie: %v", err)
				}
				tx := g.begin(t, "zombie")
				if err := g.b.Guard(t.Context(), tx, l); !errors.Is(err, leader.ErrLeaseLost) {
					t.Errorf("Guard: %v", err)
				}
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
				if n := g.entries(t); n != 0 {
					t.Errorf("%d entries", n)
				}
			})
		}
	})
}

func TestGuard_RefusesALeaseThatWasReleased(t *testing.T) {
	forEachLedger(t, func(t *testing.T, g *ledger) {
		l := lead(t, elector(t, g.b, leader.WithMinLease(time.Minute)), "job")
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.b.Guard(t.Context(), g.begin(t, "late"), l); !errors.Is(err, leader.ErrLeaseLost) {
			t.Errorf("Guard: %v", err)
		}
	})
}

func TestGuard_KeepsOthersFromTakingOverUntilTheCommit(t *testing.T) {
	t.Parallel()
	asideForEachLedger(t, func(t *testing.T, g *ledger) {
		l := lead(t, elector(t, g.b, leader.WithLeaseTime(shortLease), leader.WithoutAutoExtend()), "job")
		tx := g.guarded(t, l)
		next := request(l.Info().Key, long)
		attempt := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := g.other.TryAcquire(ctx, next)
			return err
		}
		if err := lost(t, l); !errors.Is(err, leader.ErrExpired) {
			t.Errorf("lost: %v", err)
		}
		eventually(t, "the expired lease is not to be had", func() bool {
			err := attempt()
			if err == nil {
				t.Fatal("another took it over")
			}
			return !errors.Is(err, backend.ErrHeld) && backend.KindOf(err) == backend.Unavailable
		})
		if err := tx.Commit(); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		eventually(t, "another takes it over", func() bool { return attempt() == nil })
		if n := g.entries(t); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestGuard_BlocksTheHoldersOwnRenewalOnlyMeanwhile(t *testing.T) {
	t.Parallel()
	asideForEachLedger(t, func(t *testing.T, g *ledger) {
		l := lead(t, elector(t, g.b), "job")
		tx := g.guarded(t, l)
		extend := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			return l.Extend(ctx, long)
		}
		if err := extend(); err == nil || errors.Is(err, leader.ErrLeaseLost) {
			t.Errorf("Extend: %v, want that it waits in vain", err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		eventually(t, "the lease is extended", func() bool { return extend() == nil })
		if err := l.Err(); err != nil {
			t.Errorf("the lease: %v", err)
		}
	})
}

func TestGuard_OnPostgreSQL_LocksNoOtherName(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, db := d.open(t, schema)
		g := &ledger{b: b, db: db, insert: "INSERT INTO ledger VALUES ($1)"}
		execute(t, db, "CREATE TABLE ledger (entry text PRIMARY KEY)")
		other := win(t, b, request("other", long))
		g.guarded(t, lead(t, elector(t, b), "job"))
		win(t, b, request("new", long))
		if err := other.Renew(t.Context(), long); err != nil {
			t.Errorf("Renew: %v", err)
		}
	})
}

func TestGuard_OnPostgreSQL_UnderSnapshots_AsksForARepeatAfterARenewal(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		b, db := d.open(t, d.newSchema(t))
		l := lead(t, elector(t, b), "job")
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			guard := func(between func()) error {
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback() //nolint:errcheck // only the guard is of interest
				if _, err := tx.ExecContext(t.Context(), "SELECT 1"); err != nil {
					t.Fatal(err)
				}
				between()
				return b.Guard(t.Context(), tx, l)
			}
			if err := guard(func() {}); err != nil {
				t.Errorf("%v: Guard: %v", level, err)
			}
			err := guard(func() {
				if err := l.Extend(t.Context(), long); err != nil {
					t.Fatal(err)
				}
			})
			if errors.Is(err, leader.ErrLeaseLost) {
				t.Errorf("%v: Guard after a renewal: %v", level, err)
			}
			wantKind(t, "Guard after a renewal", err, backend.Unavailable)
		}
	})
}
