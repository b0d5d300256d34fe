package sqltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// wantHint checks the kind of an error, and that its text says what to do.
func wantHint(t testing.TB, what string, err error, kind backend.Kind, hint string) {
	t.Helper()
	wantKind(t, what, err, kind)
	if err != nil && !strings.Contains(err.Error(), hint) {
		t.Errorf("%s: %q does not say %q", what, err, hint)
	}
}

// advice is what Advise says of the database of db, in one text.
func advice(t testing.TB, b *sqlleader.Backend) string {
	t.Helper()
	warnings, err := b.Advise(t.Context())
	if err != nil {
		t.Fatalf("Advise: %v", err)
	}
	return strings.Join(warnings, "\n")
}

func TestPostgreSQL_AMissingTable_IsMisconfigured(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		b := d.on(t, d.connect(t, d.server.Addr(), d.newSchema(t)), nil)
		_, err := b.TryAcquire(t.Context(), request("job", long))
		wantHint(t, "TryAcquire", err, backend.Misconfigured,
			"create tables leader_leases and leader_leases_records once: Migrate")
		_, err = b.Inspect(t.Context(), "job")
		wantHint(t, "Inspect", err, backend.Misconfigured, "Migrate")
		_, err = b.PutRecord(t.Context(), backend.Record{Key: "job!run/1"})
		wantHint(t, "PutRecord", err, backend.Misconfigured, "Migrate")

		elsewhere := d.on(t, d.admin, &sqlleader.Options{Table: "nowhere.leases"})
		_, err = elsewhere.TryAcquire(t.Context(), request("job", long))
		wantKind(t, "TryAcquire in a schema that does not exist", err, backend.Misconfigured)
		wantKind(t, "Migrate in a schema that does not exist", elsewhere.Migrate(t.Context()), backend.Misconfigured)
	})
}

func TestPostgreSQL_AMissingPrivilege_IsDenied(t *testing.T) {
	const hint = "grant SELECT, INSERT, UPDATE and DELETE on leader_leases and leader_leases_records"
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		owner, _ := d.open(t, schema)
		execute(t, d.admin, "CREATE ROLE reader LOGIN PASSWORD 'other'")
		b := d.on(t, d.as(t, schema, "reader", "other"), nil)
		execute(t, d.admin, "GRANT USAGE ON SCHEMA "+schema+" TO reader")
		_, err := b.Inspect(t.Context(), "job")
		wantHint(t, "Inspect without any", err, backend.Denied, hint)

		execute(t, d.admin, "GRANT SELECT ON ALL TABLES IN SCHEMA "+schema+" TO reader")
		held := win(t, owner, request("held", long))
		if h := inspect(t, b, "held"); h.Fence != held.Fence() {
			t.Errorf("Inspect by a reader: %+v", h)
		}
		_, err = b.TryAcquire(t.Context(), request("job", long))
		wantHint(t, "TryAcquire by a reader", err, backend.Denied, hint)
		_, err = b.PutRecord(t.Context(), backend.Record{Key: "job!run/1"})
		wantHint(t, "PutRecord by a reader", err, backend.Denied, hint)
		if _, err := elector(t, b).RunIfLeader(t.Context(), "job", nothing); !errors.Is(err, leader.ErrDenied) {
			t.Errorf("RunIfLeader by a reader: %v", err)
		}

		execute(t, d.admin, "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO reader")
		l := win(t, b, request("job", long))
		if err := l.Renew(t.Context(), long); err != nil {
			t.Errorf("Renew with what the hint names: %v", err)
		}
		if err := l.Release(t.Context(), 0); err != nil {
			t.Errorf("Release with what the hint names: %v", err)
		}
		if _, err := b.PutRecord(t.Context(), backend.Record{Key: "job!run/1"}); err != nil {
			t.Errorf("PutRecord with what the hint names: %v", err)
		}

		stranger := d.on(t, d.as(t, schema, "reader", "wrong"), nil)
		_, err = stranger.TryAcquire(t.Context(), request("job", long))
		wantKind(t, "TryAcquire with a wrong password", err, backend.Denied)
		if strings.Contains(err.Error(), "wrong") {
			t.Errorf("the password is in %q", err)
		}
	})
}

func TestPostgreSQL_ReadOnlyTransactions_AreUnavailable(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		owner, _ := d.open(t, schema)
		held := win(t, owner, request("held", long))
		b := d.on(t, d.withSettings(t, schema, map[string]string{"default_transaction_read_only": "on"}), nil)
		_, err := b.TryAcquire(t.Context(), request("job", long))
		wantHint(t, "TryAcquire", err, backend.Unavailable, "connect to the primary, target_session_attrs=read-write")
		if h := inspect(t, b, "held"); h.Fence != held.Fence() {
			t.Errorf("Inspect: %+v", h)
		}
		if got := advice(t, b); !strings.Contains(got, "read-only by default") {
			t.Errorf("Advise: %q", got)
		}
	})
}

// A server that recovers its own log for ever is a hot standby, as one that follows a primary is.
func TestPostgreSQL_AStandby_IsUnavailableUntilItIsPromoted(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, db := d.open(t, schema)
		held := win(t, b, request("held", long))
		execute(t, d.admin, `DO $$ BEGIN EXECUTE format('COPY (SELECT) TO %L',
			current_setting('data_directory') || '/standby.signal'); END $$`)
		d.restart(t, db)
		if !queryOne[bool](t, d.admin, "SELECT pg_is_in_recovery()") {
			t.Fatal("the server is no standby")
		}

		if h := inspect(t, b, "held"); h.Fence != held.Fence() {
			t.Errorf("Inspect: %+v", h)
		}
		_, err := b.TryAcquire(t.Context(), request("job", long))
		wantHint(t, "TryAcquire", err, backend.Unavailable, "this is a replica, or read-only by its settings")
		wantHint(t, "Renew", held.Renew(t.Context(), long), backend.Unavailable, "connect to the primary")
		if got := advice(t, b); !strings.Contains(got, "is a replica") {
			t.Errorf("Advise: %q", got)
		}
		if _, err := elector(t, b).RunIfLeader(t.Context(), "job", nothing); !errors.Is(err, leader.ErrUnavailable) {
			t.Errorf("RunIfLeader: %v", err)
		}

		execute(t, d.admin, "SELECT pg_promote()")
		if err := held.Renew(t.Context(), long); err != nil {
			t.Errorf("Renew after the promotion: %v", err)
		}
		win(t, b, request("job", long))
	})
}

func TestPostgreSQL_Advise_WarnsOfSettings(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, db := d.open(t, schema)
		if got := advice(t, b); got != "" {
			t.Errorf("of a good server: %q", got)
		}
		hasty := d.on(t, d.withSettings(t, schema, map[string]string{"synchronous_commit": "off"}), nil)
		if got := advice(t, hasty); !strings.Contains(got, "synchronous_commit is off") || strings.Contains(got, "\n") {
			t.Errorf("of a hasty session: %q", got)
		}
		execute(t, db, "ALTER TABLE leader_leases ALTER name TYPE text COLLATE \"default\"")
		if got := advice(t, b); !strings.Contains(got, `column name of leader_leases has collation default, not "C"`) {
			t.Errorf("of a table with another collation: %q", got)
		}
		execute(t, d.admin, "ALTER SYSTEM SET fsync = off")
		execute(t, d.admin, "SELECT pg_reload_conf()")
		eventually(t, "the setting is known", func() bool { return queryOne[string](t, db, "SHOW fsync") == "off" })
		if got := advice(t, b); !strings.Contains(got, "fsync is off") {
			t.Errorf("of a server without fsync: %q", got)
		}
	}, testserver.PostgresConfig("fsync = on"))
}

// A server that nobody listens at, one that is full, and a database that is not there.
func TestPostgreSQL_ConnectionsThatFail_HaveAKind(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		u := urlAt(t, d.server, d.server.Addr())
		u.Path = "/absent"
		_, err := d.on(t, openPool(t, d.driver, u), nil).Inspect(t.Context(), "job")
		wantKind(t, "a database that does not exist", err, backend.Misconfigured)

		b, db := d.open(t, d.newSchema(t))
		execute(t, d.admin, "CREATE ROLE one LOGIN PASSWORD 'one' CONNECTION LIMIT 0")
		_, err = d.on(t, d.as(t, "public", "one", "one"), nil).Inspect(t.Context(), "job")
		wantKind(t, "a role with too many connections", err, backend.Unavailable)

		d.server.Kill9(t)
		db.SetMaxIdleConns(0)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		began := time.Now()
		_, err = b.Inspect(ctx, "job")
		wantKind(t, "a server that is away", err, backend.Unavailable)
		if took := time.Since(began); took > slack {
			t.Errorf("it took %v", took)
		}
	})
}
