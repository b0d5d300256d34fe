package mysqlleader_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// inZone sets the session's time zone and what the driver makes of it.
func inZone(zone string, loc *time.Location) setting {
	return func(c *mysql.Config) {
		variable("time_zone", "'"+zone+"'")(c)
		c.ParseTime, c.Loc = loc != nil, time.UTC
		if loc != nil {
			c.Loc = loc
		}
	}
}

func TestBackend_TimeZones_HaveNoEffect(t *testing.T) {
	server := ownServer(t, testserver.MariaDBConfig("default-time-zone=+13:00"))
	west := time.FixedZone("west", -8*3600)
	clients := map[string]*mysqlleader.Backend{
		"server's": migrated(t, connect(t, server)),
		"UTC":      open(t, connect(t, server, inZone("+00:00", nil)), nil),
		"east":     open(t, connect(t, server, inZone("+05:30", time.UTC)), nil),
		"west":     open(t, connect(t, server, inZone("-08:00", west)), nil),
		"system":   open(t, connect(t, server, inZone("SYSTEM", time.Local)), nil),
	}
	for name, b := range clients {
		before := time.Now()
		lease := win(t, b, request(name, long))
		for other, b := range clients {
			h := refused(t, b, name)
			if h.Fence != lease.Fence() || h.Remaining > long || h.Remaining < long-patience {
				t.Errorf("%s sees the lease of %s so: %+v", other, name, h)
			}
			if h.Since.Before(before.Add(-patience)) || h.Since.After(time.Now().Add(patience)) {
				t.Errorf("%s sees that %s has it since %v", other, name, h.Since)
			}
			if _, now, err := b.GetRecords(t.Context(), "a!run/"); err != nil || time.Since(now).Abs() > patience {
				t.Errorf("%s reads %v on the server's clock, %v", other, now, err)
			}
		}
		renew(t, lease)
		release(t, lease, 0)
		win(t, b, request("ends "+name, brief))
	}
	for name := range clients {
		for _, b := range clients {
			eventually(t, "the lease of "+name+" ends", func() bool { return inspect(t, b, "ends "+name).Free() })
		}
	}
}

func TestBackend_SQLModes_HaveNoEffect(t *testing.T) {
	server := testserver.MariaDB(t)
	schema := newSchema(t, server)
	plain := migrated(t, connect(t, server, in(schema)))
	for _, mode := range []string{
		"", "TRADITIONAL", "ANSI", "ORACLE", "NO_BACKSLASH_ESCAPES", "SIMULTANEOUS_ASSIGNMENT", "PAD_CHAR_TO_FULL_LENGTH",
		"NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE",
	} {
		b := open(t, connect(t, server, in(schema), variable("sql_mode", "'"+mode+"'")), nil)
		key := "mode " + mode
		req := request(key, time.Minute)
		req.Owner, req.Metadata = `a\b'c"`, map[string]string{"zone": `a\b'c"`}
		first := win(t, b, req)
		if again := win(t, b, req); again.Fence() != first.Fence() {
			t.Errorf("mode %q: fence %d, then %d", mode, first.Fence(), again.Fence())
		}
		h := refused(t, b, key)
		if h.Owner != req.Owner || h.Metadata["zone"] != req.Metadata["zone"] || h.Remaining > time.Minute {
			t.Errorf("mode %q: %+v", mode, h)
		}
		renew(t, first)
		if h := refused(t, plain, key); h.Fence != first.Fence() || h.Remaining < long-patience {
			t.Errorf("mode %q: %+v after the renewal", mode, h)
		}
		release(t, first, time.Minute)
		if h := inspect(t, plain, key); !h.Kept || h.Remaining > time.Minute {
			t.Errorf("mode %q: %+v is kept", mode, h)
		}
		release(t, first, 0)
		second := win(t, b, request(key, long))
		if second.Fence() <= first.Fence() {
			t.Errorf("mode %q: fence %d follows %d", mode, second.Fence(), first.Fence())
		}
		if h := refused(t, plain, key); h.Fence != second.Fence() || h.Remaining < long-patience {
			t.Errorf("mode %q: %+v has the second lease", mode, h)
		}
		if err := b.Break(t.Context(), key, second.Fence()); err != nil {
			t.Errorf("mode %q: Break: %v", mode, err)
		}
		abandoned := request(key, long)
		win(t, b, abandoned)
		if err := b.Abandon(t.Context(), abandoned); err != nil {
			t.Errorf("mode %q: Abandon: %v", mode, err)
		}
		_, err := plain.TryAcquire(t.Context(), abandoned)
		lost(t, "mode "+mode+": an attempt with an abandoned token", err)
		keepsRecords(t, b, key)
	}
}

func TestBackend_EmptyStringIsNull_IsMisconfigured(t *testing.T) {
	server := testserver.MariaDB(t)
	schema := newSchema(t, server)
	plain := migrated(t, connect(t, server, in(schema)))
	release(t, win(t, plain, request("old", long)), 0)
	for _, mode := range []string{"EMPTY_STRING_IS_NULL", "EMPTY_STRING_IS_NULL,STRICT_ALL_TABLES"} {
		b := open(t, connect(t, server, in(schema), variable("sql_mode", "'"+mode+"'")), nil)
		for _, key := range []string{"old", "new"} {
			_, err := b.TryAcquire(t.Context(), request(key, long))
			hinted(t, mode, err, backend.Misconfigured, "EMPTY_STRING_IS_NULL")
			if h := inspect(t, plain, key); !h.Free() {
				t.Errorf("mode %q: %+v has %q", mode, h, key)
			}
		}
	}
}

func TestBackend_AutocommitOff_ElectsNobody(t *testing.T) {
	server := testserver.MariaDB(t)
	schema := newSchema(t, server)
	plain := migrated(t, connect(t, server, in(schema)))
	release(t, win(t, plain, request("old", long)), 0)
	b := open(t, connect(t, server, in(schema), variable("autocommit", "0")), nil)
	for _, key := range []string{"old", "new"} {
		_, err := b.TryAcquire(t.Context(), request(key, long))
		hinted(t, key, err, backend.Misconfigured, "autocommit")
	}
	for range 2 { // the slot has no row at first
		if _, _, err := b.TryAcquireSlot(t.Context(), request("group", long), 1); err == nil {
			t.Error("a slot was granted that nobody else sees")
		}
		l, _, err := plain.TryAcquireSlot(t.Context(), request("group", long), 1)
		if err != nil {
			t.Fatal(err)
		}
		release(t, l, 0)
	}
}

// keepsRecords makes, changes and deletes a record.
func keepsRecords(t testing.TB, b *mysqlleader.Backend, name string) {
	t.Helper()
	r := backend.Record{Key: name + "!run/1", Value: []byte("\x00\\'"), TTL: time.Minute}
	for range 2 {
		version, err := b.PutRecord(t.Context(), r)
		if err != nil {
			t.Fatalf("PutRecord(%q): %v", r.Key, err)
		}
		r.Version = version
	}
	list, _, err := b.GetRecords(t.Context(), name+"!run/")
	if err != nil || len(list) != 1 || string(list[0].Value) != string(r.Value) || list[0].Version != r.Version {
		t.Errorf("GetRecords(%q): %+v, %v", r.Key, list, err)
	}
	if err := b.DeleteRecord(t.Context(), r); err != nil {
		t.Errorf("DeleteRecord(%q): %v", r.Key, err)
	}
}

// TestBackend_Serializable_ElectsExactlyOneInEachRound has all insert the first row of a name in every other round.
func TestBackend_Serializable_ElectsExactlyOneInEachRound(t *testing.T) {
	const contenders = 50
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	server := ownServer(t, testserver.MariaDBConfig("transaction-isolation=SERIALIZABLE"))
	db := connect(t, server)
	var isolation string
	if err := db.QueryRowContext(t.Context(), "SELECT @@tx_isolation").Scan(&isolation); err != nil {
		t.Fatal(err)
	}
	if isolation != "SERIALIZABLE" {
		t.Fatalf("isolation %s", isolation)
	}
	migrated(t, db)
	backends := make([]*mysqlleader.Backend, contenders)
	for i := range backends {
		handle := connect(t, server)
		handle.SetMaxOpenConns(1)
		backends[i] = open(t, handle, nil)
	}
	var last uint64
	for round := range rounds {
		key := "always"
		if round%2 == 1 {
			key = fmt.Sprint("new ", round)
		}
		lease := contend(t, backends, key)
		if lease == nil {
			t.Fatalf("round %d has no single winner", round)
		}
		if lease.Fence() <= last {
			t.Fatalf("fence %d follows %d", lease.Fence(), last)
		}
		last = lease.Fence()
		release(t, lease, 0)
	}
}

// contend has all attempt at once and returns the lease of the one that won, nil if that is not how it was.
func contend(t testing.TB, backends []*mysqlleader.Backend, key string) backend.Lease {
	t.Helper()
	var attempts sync.WaitGroup
	leases := make(chan backend.Lease, len(backends))
	for _, b := range backends {
		attempts.Go(func() {
			lease, err := b.TryAcquire(t.Context(), request(key, long))
			switch {
			case err == nil:
				leases <- lease
			case !errors.Is(err, backend.ErrHeld):
				t.Errorf("TryAcquire(%q): %v", key, err)
			}
		})
	}
	attempts.Wait()
	if len(leases) != 1 {
		return nil
	}
	return <-leases
}
