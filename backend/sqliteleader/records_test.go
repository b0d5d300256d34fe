package sqliteleader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/backend/sqlleader"
)

func put(t testing.TB, d backend.Records, r backend.Record) backend.Record {
	t.Helper()
	version, err := d.PutRecord(t.Context(), r)
	if err != nil || version == "" || version == r.Version {
		t.Fatalf("PutRecord %q on version %q = %q, %v", r.Key, r.Version, version, err)
	}
	r.Version = version
	return r
}

// stored returns the records of a set, sorted by key.
func stored(t testing.TB, d backend.Records, prefix string) []backend.Record {
	t.Helper()
	list, _, err := d.GetRecords(t.Context(), prefix)
	if err != nil {
		t.Fatalf("GetRecords %q: %v", prefix, err)
	}
	slices.SortFunc(list, func(a, b backend.Record) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func wantConflict(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrConflict) {
		t.Errorf("%s: %v, want a conflict", what, err)
	}
}

func TestBackend_PutRecord_ComparesVersions(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	first := put(t, a, backend.Record{Key: "a!c/1", Value: []byte("first")})
	_, err := b.PutRecord(t.Context(), backend.Record{Key: "a!c/1", Value: []byte("again")})
	wantConflict(t, "a second creation", err)
	_, err = b.PutRecord(t.Context(), backend.Record{Key: "a!c/2", Version: first.Version})
	wantConflict(t, "a version of another key", err)
	second := put(t, b, backend.Record{Key: "a!c/1", Version: first.Version, Value: []byte("second")})
	_, err = a.PutRecord(t.Context(), first)
	wantConflict(t, "an old version", err)
	wantConflict(t, "deletion of an old version", a.DeleteRecord(t.Context(), first))
	wantConflict(t, "deletion without version", a.DeleteRecord(t.Context(), backend.Record{Key: "a!c/1"}))
	if got := stored(t, a, "a!c/"); len(got) != 1 || string(got[0].Value) != "second" || got[0].Version != second.Version {
		t.Errorf("stored: %+v", got)
	}
	for range 2 {
		if err := a.DeleteRecord(t.Context(), second); err != nil {
			t.Errorf("DeleteRecord: %v", err)
		}
	}
	if got := stored(t, b, "a!c/"); len(got) != 0 {
		t.Errorf("after deletion: %+v", got)
	}
	_, err = b.PutRecord(t.Context(), second)
	wantConflict(t, "the version of a deleted record", err)
}

func TestBackend_PutRecord_NeverReusesAVersion(t *testing.T) {
	b := open(t, newPath(t))
	seen := make(map[string]bool)
	for i := range 100 {
		r := backend.Record{Key: "a!c/1", TTL: time.Duration(i%2) * time.Millisecond}
		r = put(t, b, r)
		if i%2 == 1 {
			eventually(t, watchdog, "expiry", func() bool { return len(stored(t, b, "a!c/")) == 0 })
		} else if err := b.DeleteRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if seen[r.Version] {
			t.Fatalf("version %q again", r.Version)
		}
		seen[r.Version] = true
	}
}

func TestBackend_PutRecord_OneOfFiftyWinsEachVersion(t *testing.T) {
	path := newPath(t)
	backends := []backend.Records{open(t, path), open(t, path)}
	const racers, rounds = 50, 10
	current := backend.Record{Key: "a!n/1"}
	for round := range rounds {
		wins := make(chan backend.Record, racers)
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() {
				mine := current
				mine.Value = fmt.Appendf(nil, "%d %d", round, i)
				version, err := backends[i%2].PutRecord(bounded(t, watchdog), mine)
				switch {
				case err == nil:
					mine.Version = version
					wins <- mine
				case !errors.Is(err, backend.ErrConflict):
					t.Errorf("PutRecord: %v", err)
				}
			})
		}
		all.Wait()
		if len(wins) != 1 {
			t.Fatalf("%d of %d won", len(wins), racers)
		}
		current = <-wins
		got := stored(t, backends[0], "a!n/")
		if len(got) != 1 || got[0].Version != current.Version || !bytes.Equal(got[0].Value, current.Value) {
			t.Fatalf("the winner was %+v, stored is %+v", current, got)
		}
	}
}

func TestBackend_Records_KeepAnyValue(t *testing.T) {
	b := open(t, newPath(t))
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, value := range [][]byte{nil, {}, {0}, all, bytes.Repeat(all, 64), []byte("text\x00'ä\"")} {
		key := fmt.Sprintf("a!c/%d", i)
		r := put(t, b, backend.Record{Key: key})
		r.Value = value
		r = put(t, b, r)
		got := stored(t, b, key)
		if len(got) != 1 || !bytes.Equal(got[0].Value, value) || got[0].Key != key || got[0].Version != r.Version {
			t.Errorf("%d bytes came back as %d records, %.100v", len(value), len(got), got)
		}
	}
	if got := stored(t, b, "a!c/"); len(got) != 6 {
		t.Errorf("%d records", len(got))
	}
}

func TestBackend_GetRecords_KeepsSetsApart(t *testing.T) {
	b := open(t, newPath(t))
	names := []string{"a", "a:b", "a#0", "a!x", "a0", "A", "a/a", "ä", "a%"}
	for _, name := range names {
		acquire(t, b, request(name, lasting))
		for _, kind := range []string{"c", "c0", "C"} {
			for _, id := range []string{"1", "10", "n/1", "ä", "\U0010ffff"} {
				key := name + "!" + kind + "/" + id
				put(t, b, backend.Record{Key: key, Value: []byte(key)})
			}
		}
	}
	for _, name := range names {
		got := stored(t, b, name+"!c/")
		if len(got) != 5 {
			t.Errorf("%q has %d records", name, len(got))
		}
		for _, r := range got {
			if !strings.HasPrefix(r.Key, name+"!c/") || string(r.Value) != r.Key {
				t.Errorf("%q has %q with value %q", name, r.Key, r.Value)
			}
		}
	}
}

func TestBackend_Records_Expire(t *testing.T) {
	b := open(t, newPath(t))
	const ttl = 60 * time.Millisecond
	begin := time.Now()
	put(t, b, backend.Record{Key: "a!c/forever"})
	put(t, b, backend.Record{Key: "a!c/long", TTL: lasting})
	short := put(t, b, backend.Record{Key: "a!c/short", TTL: ttl})
	eventually(t, watchdog, "expiry", func() bool { return len(stored(t, b, "a!c/")) == 2 })
	if d := time.Since(begin); d < ttl {
		t.Errorf("expired after %v of %v", d, ttl)
	}
	_, err := b.PutRecord(t.Context(), short)
	wantConflict(t, "an expired version", err)
	if err := b.DeleteRecord(t.Context(), backend.Record{Key: short.Key, Version: "x"}); err != nil {
		t.Errorf("deletion of an expired record: %v", err)
	}
	again := put(t, b, backend.Record{Key: "a!c/short", Value: []byte("x")})
	if again.Version == short.Version {
		t.Error("the version came back")
	}
	got := stored(t, b, "a!c/")
	if len(got) != 3 || got[0].TTL != 0 || got[2].TTL != 0 {
		t.Fatalf("stored: %+v", got)
	}
	if left := got[1].TTL; left > lasting || left < lasting-time.Minute {
		t.Errorf("%v are left", left)
	}
	longer := got[1]
	longer.TTL = 2 * lasting
	longer = put(t, b, longer)
	if left := stored(t, b, "a!c/long")[0].TTL; left < 2*lasting-time.Minute {
		t.Errorf("%v are left of a longer TTL", left)
	}
	longer.TTL = ttl
	put(t, b, longer)
	eventually(t, watchdog, "expiry", func() bool { return len(stored(t, b, "a!c/long")) == 0 })
	_, err = b.PutRecord(t.Context(), backend.Record{Key: "a!c/x", TTL: -1})
	if backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("a negative TTL: %v", err)
	}
}

func TestBackend_GetRecords_TellsTheMachinesTime(t *testing.T) {
	b := open(t, newPath(t))
	before := time.Now()
	_, now, err := b.GetRecords(t.Context(), "a!c/")
	if err != nil || now.Before(before.Add(-time.Millisecond)) || now.After(time.Now().Add(time.Millisecond)) {
		t.Errorf("%v, %v at %v", now, err, before)
	}
}

func TestBackend_Records_LiveOnAfterAReboot(t *testing.T) {
	path := newPath(t)
	r := put(t, openOn(t, path, &machine{name: "before"}), backend.Record{Key: "a!run/1", TTL: lasting})
	after := openOn(t, path, &machine{name: "after", ahead: 100 * lasting})
	got := stored(t, after, "a!run/")
	if len(got) != 1 || got[0].TTL > lasting || got[0].TTL < lasting-time.Minute {
		t.Fatalf("stored: %+v", got)
	}
	_, err := after.PutRecord(t.Context(), backend.Record{Key: "a!run/1"})
	wantConflict(t, "a second run", err)
	put(t, after, r)
}

func TestBackend_Records_ExpiredOnesAreDeletedInTime(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	const many, created = 500, 300
	put(t, b, backend.Record{Key: "a!run/stays", TTL: lasting})
	put(t, b, backend.Record{Key: "a!run/forever"})
	db := handle(t, path)
	execute(t, db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO leader_leases_records SELECT 'old!run/' || i, 1, i, x'', i FROM n`, many)
	for i := range created {
		put(t, b, backend.Record{Key: fmt.Sprintf("a!run/%d", i), TTL: lasting})
	}
	count := func() (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM leader_leases_records").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != created+2 {
		t.Errorf("%d rows after %d creations, %d of them expired", n, created, n-created-2)
	}
	// Processes that create one record each delete some, too.
	execute(t, db, "UPDATE leader_leases_records SET until = 1 WHERE name LIKE 'a!run/1%'")
	before := count()
	put(t, open(t, path), backend.Record{Key: "a!run/next"})
	if after := count(); after >= before {
		t.Errorf("%d rows became %d", before, after)
	}
}

func TestBackend_Records_LeaveOtherFormatsAlone(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	r := put(t, b, backend.Record{Key: "a!c/1", Value: []byte("x"), TTL: lasting})
	db := handle(t, path)
	execute(t, db, "UPDATE leader_leases_records SET format = 2, until = 1")
	_, created := b.PutRecord(t.Context(), backend.Record{Key: "a!c/1"})
	_, replaced := b.PutRecord(t.Context(), r)
	_, _, got := b.GetRecords(t.Context(), "a!c/")
	for what, err := range map[string]error{
		"create": created, "replace": replaced, "get": got, "delete": b.DeleteRecord(t.Context(), r),
	} {
		if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("%s: %v", what, err)
		}
	}
	put(t, b, backend.Record{Key: "b!c/1"}) // sweeps
	var row string
	const q = "SELECT format || ' ' || version || ' ' || value || ' ' || until FROM leader_leases_records " +
		"WHERE name = 'a!c/1'"
	if err := db.QueryRowContext(t.Context(), q).Scan(&row); err != nil || row != "2 "+r.Version+" x 1" {
		t.Errorf("the row became %q, %v", row, err)
	}
}

func TestBackend_Records_EndWithTheContext(t *testing.T) {
	b := open(t, newPath(t))
	r := put(t, b, backend.Record{Key: "a!c/1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, putErr := b.PutRecord(ctx, r)
	_, _, getErr := b.GetRecords(ctx, "a!c/")
	_, _, slotErr := b.TryAcquireSlot(ctx, request("g", lasting), 1)
	for what, err := range map[string]error{
		"PutRecord": putErr, "GetRecords": getErr, "DeleteRecord": b.DeleteRecord(ctx, r), "TryAcquireSlot": slotErr,
		"Break": b.Break(ctx, "k", 1),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := stored(t, b, "a!c/"); len(got) != 1 || got[0].Version != r.Version {
		t.Errorf("stored: %+v", got)
	}
}

// withoutRecords makes the file look as if no release with records had ever used it.
func withoutRecords(t *testing.T, path string) backend.Lease {
	t.Helper()
	l := acquire(t, open(t, path), request("k", lasting))
	execute(t, handle(t, path), "DROP TABLE leader_leases_records")
	return l
}

func TestBackend_Records_AFileFromBeforeThemGetsTheirTable(t *testing.T) {
	for what, use := range map[string]func(*sqliteleader.Backend) error{
		"PutRecord": func(b *sqliteleader.Backend) error {
			_, err := b.PutRecord(t.Context(), backend.Record{Key: "a!c/1"})
			return err
		},
		"GetRecords": func(b *sqliteleader.Backend) error {
			_, _, err := b.GetRecords(t.Context(), "a!c/")
			return err
		},
		"DeleteRecord": func(b *sqliteleader.Backend) error {
			return b.DeleteRecord(t.Context(), backend.Record{Key: "a!c/1", Version: "x"})
		},
		"Migrate": func(b *sqliteleader.Backend) error { return b.Migrate(t.Context()) },
	} {
		path := newPath(t)
		l := withoutRecords(t, path)
		b := open(t, path)
		if h := wantHeld(t, b, "k"); h.Fence != l.Fence() {
			t.Errorf("holder = %+v", h)
		}
		if err := use(b); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		put(t, b, backend.Record{Key: "a!c/2"})
		if err := l.Renew(t.Context(), lasting); err != nil {
			t.Errorf("Renew: %v", err)
		}
	}
}

func TestBackend_Records_WithoutTheirTableAreMisconfigured(t *testing.T) {
	path := newPath(t)
	withoutRecords(t, path)
	b := sqlleader.New(handle(t, path), sqlleader.SQLite(), nil)
	t.Cleanup(func() { _ = b.Close() })
	_, err := b.PutRecord(t.Context(), backend.Record{Key: "a!c/1"})
	if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "Migrate") ||
		!strings.Contains(err.Error(), "leader_leases_records") {
		t.Errorf("PutRecord: %v", err)
	}
	wantHeld(t, b, "k")
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, b, backend.Record{Key: "a!c/1"})
}

func TestBackend_DamagedRecords_AreMisconfigured(t *testing.T) {
	path := newPath(t)
	b, err := sqliteleader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, backend.Record{Key: "a!c/1"})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	db := handle(t, path)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range []string{
		"PRAGMA writable_schema = ON",
		"UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'leader_leases') " +
			"WHERE name = 'leader_leases_records'",
	} {
		if _, err := conn.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := open(t, path).GetRecords(t.Context(), "a!c/"); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("GetRecords: %v", err)
	}
}
