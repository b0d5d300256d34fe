package sqliteleader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqliteleader"
)

// BenchmarkAcquireRelease compares a term with the two writes it consists of, as prepared statements of database/sql on
// a file with the same settings, in turns within one run. The ratio is reported for both durabilities.
func BenchmarkAcquireRelease(b *testing.B) {
	for name, opts := range map[string]*sqliteleader.Options{"normal": nil, "full": {FullSync: true}} {
		b.Run(name, func(b *testing.B) {
			driver := openWith(b, newPath(b), opts)
			raw := newRawPair(b, map[bool]string{true: "FULL", false: "NORMAL"}[opts != nil])
			term := func() {
				l, err := driver.TryAcquire(b.Context(), request("k", lasting))
				if err == nil {
					err = l.Release(b.Context(), 0)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			term()
			var ours, theirs time.Duration
			for b.Loop() {
				begin := time.Now()
				term()
				middle := time.Now()
				raw(b)
				ours += middle.Sub(begin)
				theirs += time.Since(middle)
			}
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "term-ns")
			b.ReportMetric(float64(ours)/float64(theirs), "term/raw")
		})
	}
}

// newRawPair returns a function that runs an upsert and an update.
func newRawPair(b *testing.B, sync string) func(*testing.B) {
	db := handle(b, newPath(b)+"?_pragma=journal_mode(WAL)&_pragma=synchronous("+sync+")&_x=")
	execute(b, db, "CREATE TABLE l (name TEXT PRIMARY KEY, token TEXT, owner TEXT, fence INTEGER, until INTEGER, "+
		"metadata TEXT) STRICT, WITHOUT ROWID")
	take, err := db.PrepareContext(b.Context(), "INSERT INTO l VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (name) DO UPDATE "+
		"SET token = excluded.token, owner = excluded.owner, fence = fence + 1, until = excluded.until, "+
		"metadata = excluded.metadata WHERE token = ''")
	if err != nil {
		b.Fatal(err)
	}
	free, err := db.PrepareContext(b.Context(), "UPDATE l SET token = '', until = 0 WHERE name = ? AND token = ?")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = take.Close(), free.Close() })
	return func(b *testing.B) {
		req := request("k", lasting)
		if _, err := take.ExecContext(b.Context(), req.Key, req.Token, req.Owner, 1, `{"zone":"ä"}`); err != nil {
			b.Fatal(err)
		}
		if _, err := free.ExecContext(b.Context(), req.Key, req.Token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTryAcquire_Held(b *testing.B) {
	driver := open(b, newPath(b))
	acquire(b, driver, request("k", lasting))
	for b.Loop() {
		wantHeld(b, driver, "k")
	}
}

func BenchmarkRenew(b *testing.B) {
	driver := open(b, newPath(b))
	l := acquire(b, driver, request("k", lasting))
	for b.Loop() {
		if err := l.Renew(b.Context(), lasting); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleWaiters reports what 1,000 waiters on ten names cost per second of waiting.
func BenchmarkIdleWaiters(b *testing.B) {
	driver := open(b, newPath(b))
	seen := make(map[string]string)
	for _, key := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		acquire(b, driver, request(key, lasting))
		seen[key] = inspect(b, driver, key).Seen
	}
	for key, s := range seen {
		for range 100 {
			go func() { _ = backend.Waiter(driver).AwaitRelease(b.Context(), key, s) }()
		}
	}
	time.Sleep(100 * time.Millisecond)
	begin := cpuTime(b)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric(float64((cpuTime(b)-begin).Microseconds())/float64(b.N)/1e4, "%-of-a-core")
}

func BenchmarkAcquireReleaseSlot(b *testing.B) {
	driver := open(b, newPath(b))
	for b.Loop() {
		l, _ := takeSlot(b, driver, request("g", lasting), 8)
		release(b, l, 0)
	}
}

func BenchmarkPutRecord(b *testing.B) {
	driver := open(b, newPath(b))
	r := backend.Record{Key: "a!c/1", Value: make([]byte, 300), TTL: lasting}
	for b.Loop() {
		r = put(b, driver, r)
	}
}

func BenchmarkGetRecords_Thousand(b *testing.B) {
	driver := open(b, newPath(b))
	for i := range 1000 {
		put(b, driver, backend.Record{Key: fmt.Sprint("a!c/", i), Value: make([]byte, 300), TTL: lasting})
	}
	for b.Loop() {
		if n := len(stored(b, driver, "a!c/")); n != 1000 {
			b.Fatalf("%d records", n)
		}
	}
}
