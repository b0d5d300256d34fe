package mysqlleader_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// as returns a handle of a new user who has only the privileges given, on the tables of the default database.
func as(t testing.TB, admin *sql.DB, server *testserver.Server, privileges string, settings ...setting) *sql.DB {
	t.Helper()
	execute(t, admin, "CREATE OR REPLACE USER app@'%' IDENTIFIED BY 'app'")
	if privileges != "" {
		execute(t, admin, "GRANT "+privileges+" ON leader.* TO app@'%'")
	}
	return connect(t, server, append(settings, func(c *mysql.Config) { c.User, c.Passwd = "app", "app" })...)
}

// hinted checks the kind of an error, that it tells what to do, and that the server's own is in it.
func hinted(t testing.TB, what string, err error, want backend.Kind, hint string) {
	t.Helper()
	kind(t, what, err, want)
	if err == nil {
		return
	}
	if !strings.Contains(err.Error(), hint) {
		t.Errorf("%s: %v, want a hint of %q", what, err, hint)
	}
	if _, ok := errors.AsType[*mysql.MySQLError](err); !ok {
		t.Errorf("%s: %v hides the server's error", what, err)
	}
}

func TestBackend_RowDeletedUnderALeader_IsLostAndItsFenceExceeded(t *testing.T) {
	b, db := start(t)
	for _, statement := range []string{"DELETE FROM ", "TRUNCATE TABLE "} {
		lease := win(t, b, request("a", long))
		execute(t, db, statement+sqlleader.DefaultTable)
		lost(t, statement, lease.Renew(t.Context(), long))
		next := win(t, b, request("a", long))
		if next.Fence() <= lease.Fence() {
			t.Errorf("%s: fence %d follows %d", statement, next.Fence(), lease.Fence())
		}
		release(t, lease, long)
		if h := refused(t, b, "a"); h.Fence != next.Fence() {
			t.Errorf("%s: the old lease's release disturbed the new one: %+v", statement, h)
		}
		release(t, next, 0)
	}
}

func TestBackend_DroppedTable_IsToldWithAHintOrMadeAnew(t *testing.T) {
	b, db := start(t)
	maker := open(t, db, &mysqlleader.Options{CreateTable: true})
	lease := win(t, b, request("a", long))
	execute(t, db, "DROP TABLE "+sqlleader.DefaultTable)
	for name, call := range calls(b, lease) {
		switch name {
		case "PutRecord", "GetRecords", "DeleteRecord", "Advise", "Migrate":
		default:
			hinted(t, name, call(t.Context()), backend.Misconfigured, "Migrate")
		}
	}
	next := win(t, maker, request("a", long))
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d follows %d", next.Fence(), lease.Fence())
	}
	lost(t, "Renew", lease.Renew(t.Context(), long))
}

func TestBackend_StolenLease_IsNoticedByTheNextRenewal(t *testing.T) {
	b, db := start(t)
	for name, steal := range map[string]string{
		"another token": "UPDATE leader_leases SET token = 'thief' WHERE name = ?",
		"another fence": "UPDATE leader_leases SET fence = fence + 1 WHERE name = ?",
		"ended":         "UPDATE leader_leases SET until = 0 WHERE name = ?",
	} {
		lease := win(t, b, request(name, long))
		renew(t, lease)
		execute(t, db, steal, name)
		lost(t, name, lease.Renew(t.Context(), long))
	}
	lease := win(t, b, request("broken", long))
	if err := b.Break(t.Context(), "broken", lease.Fence()); err != nil {
		t.Fatal(err)
	}
	lost(t, "broken", lease.Renew(t.Context(), long))
}

func TestBackend_RestrictedUser_NeedsOnlyWhatIsDocumented(t *testing.T) {
	_, admin, server := startOwned(t)
	b := open(t, as(t, admin, server, "SELECT, INSERT, UPDATE, DELETE"), nil)
	lease := win(t, b, request("a", long))
	for name, call := range calls(b, lease) {
		if name == "Migrate" {
			continue
		}
		if err := call(t.Context()); backend.KindOf(err) == backend.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	hinted(t, "Migrate", b.Migrate(t.Context()), backend.Denied, "CREATE")
}

func TestBackend_MissingPrivilege_IsDeniedWithAHint(t *testing.T) {
	_, admin, server := startOwned(t)
	for missing, rest := range map[string]string{
		"INSERT": "SELECT, UPDATE, DELETE", "UPDATE": "SELECT, INSERT, DELETE", "SELECT": "INSERT, UPDATE, DELETE",
	} {
		b := open(t, as(t, admin, server, rest), nil)
		_, err := b.TryAcquire(t.Context(), request("a", long))
		hinted(t, "TryAcquire without "+missing, err, backend.Denied, "grant SELECT, INSERT, UPDATE and DELETE on leader_leases")
	}
}

func TestBackend_Login_IsDeniedOrMisconfigured(t *testing.T) {
	_, admin, server := startOwned(t)
	for name, test := range map[string]struct {
		db   *sql.DB
		want backend.Kind
	}{
		"wrong password": {connect(t, server, func(c *mysql.Config) { c.Passwd = "wrong" }), backend.Denied},
		"foreign schema": {as(t, admin, server, ""), backend.Denied},
		"no such schema": {connect(t, server, in("missing")), backend.Misconfigured},
		"no schema":      {connect(t, server, in("")), backend.Misconfigured},
		"bad variable":   {connect(t, server, variable("no_such_variable", "1")), backend.Misconfigured},
		"no TLS":         {connect(t, server, func(c *mysql.Config) { c.TLSConfig = "true" }), backend.Misconfigured},
	} {
		_, err := open(t, test.db, nil).TryAcquire(t.Context(), request("a", long))
		kind(t, name, err, test.want)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
}

func TestBackend_ReadOnlyServer_IsUnavailableUntilItIsNot(t *testing.T) {
	_, admin, server := startOwned(t)
	db := as(t, admin, server, "SELECT, INSERT, UPDATE, DELETE")
	b := open(t, db, nil)
	rejecting := open(t, connect(t, server, func(c *mysql.Config) {
		c.User, c.Passwd, c.RejectReadOnly = "app", "app", true
	}), nil)
	lease := win(t, b, request("a", long))
	win(t, rejecting, request("b", long))
	execute(t, admin, "SET GLOBAL read_only = 1")
	_, err := b.TryAcquire(t.Context(), request("c", long))
	hinted(t, "TryAcquire", err, backend.Unavailable, "connect to the primary")
	hinted(t, "Renew", lease.Renew(t.Context(), long), backend.Unavailable, "connect to the primary")
	_, err = rejecting.TryAcquire(t.Context(), request("c", long))
	kind(t, "TryAcquire with rejectReadOnly", err, backend.Unavailable)
	if h := inspect(t, b, "a"); h.Fence != lease.Fence() {
		t.Errorf("Inspect: %+v", h)
	}
	advised(t, b, "read-only")
	execute(t, admin, "SET GLOBAL read_only = 0")
	renew(t, lease)
	win(t, rejecting, request("c", long))

	transactions := open(t, connect(t, server, variable("tx_read_only", "1")), nil)
	_, err = transactions.TryAcquire(t.Context(), request("d", long))
	hinted(t, "TryAcquire in read-only transactions", err, backend.Unavailable, "read-only")
}

func TestBackend_SchemasWithTheSameName_DoNotMeet(t *testing.T) {
	server := testserver.MariaDB(t)
	one, two := newSchema(t, server), newSchema(t, server)
	a, b := migrated(t, connect(t, server, in(one))), migrated(t, connect(t, server, in(two)))
	win(t, a, request("a", long))
	lease := win(t, b, request("a", long))
	qualified := open(t, connect(t, server, in(one)), &mysqlleader.Options{Table: two + "." + sqlleader.DefaultTable})
	if h := refused(t, qualified, "a"); h.Fence != lease.Fence() {
		t.Errorf("the qualified table is another: %+v", h)
	}
}

func TestBackend_NamesThatDifferInACharacter_AreDifferent(t *testing.T) {
	for _, charset := range []string{"utf8mb4", "latin1"} {
		t.Run(charset, func(t *testing.T) {
			b, _ := start(t, func(c *mysql.Config) { _ = c.Apply(mysql.Charset(charset, "")) })
			names := []string{
				"job", "Job", "job ", " job", "jób", "jo\u0301b", "jöb", "joeb", "job_", "job%", "jobß", "jobss",
				"j\\b", "j'b", `j"b`, "工", "🚀", strings.Repeat("x", 1600), strings.Repeat("x", 1599),
			}
			leases := map[string]backend.Lease{}
			for _, name := range names {
				leases[name] = win(t, b, request(name, long))
			}
			for _, name := range names {
				if h := refused(t, b, name); h.Fence != leases[name].Fence() {
					t.Errorf("%q: %+v", name, h)
				}
			}
			n := 0
			for e, err := range b.List(t.Context(), "", false) {
				if err != nil {
					t.Fatal(err)
				}
				if leases[e.Key] == nil || leases[e.Key].Fence() != e.Fence {
					t.Errorf("%q is listed with fence %d", e.Key, e.Fence)
				}
				n++
			}
			if n != len(names) {
				t.Errorf("%d of %d names are listed", n, len(names))
			}
		})
	}
}

func TestBackend_TryAcquire_RefusesATTLThatIsTooShort(t *testing.T) {
	b, _ := start(t)
	limit := b.Limits().MinTTL
	for _, ttl := range []time.Duration{-1, 0, limit - 1} {
		_, err := b.TryAcquire(t.Context(), request("a", ttl))
		kind(t, ttl.String(), err, backend.Misconfigured)
	}
	win(t, b, request("a", limit))
}
