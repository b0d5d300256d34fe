package sqliteleader_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
)

// rowOf makes a free row for key ?1, so that there is one to harm.
const rowOf = `INSERT OR IGNORE INTO leader_leases
  (name, format, token, spent, owner, fence, since, until, clock, ttl, renewals, metadata)
VALUES (?1, 1, '', '', '', 1, 1, 0, '', 0, 0, '')`

var damages = map[backendtest.Damage]string{
	backendtest.Deleted:    "DELETE FROM leader_leases WHERE name = ?1",
	backendtest.Garbled:    "UPDATE leader_leases SET fence = -fence, metadata = '{' WHERE name = ?1",
	backendtest.NewerMajor: "UPDATE leader_leases SET format = format + 1 WHERE name = ?1",
}

func conformance() backendtest.Config {
	var newest atomic.Value // the path of the newest file
	return backendtest.Config{
		Fidelity: backendtest.Embedded,
		TTL:      300 * time.Millisecond,
		Open: func(t testing.TB, n int) []backend.Driver {
			path := newPath(t)
			newest.Store(path)
			drivers := make([]backend.Driver, n)
			for i := range drivers {
				b := open(t, path)
				if err := b.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				drivers[i] = b
			}
			return drivers
		},
		Corrupt: func(t testing.TB, key string, how backendtest.Damage) {
			harm, ok := damages[how]
			if !ok {
				t.Skip("skipped: the columns are typed")
			}
			db := handle(t, newest.Load().(string))
			execute(t, db, rowOf, key)
			execute(t, db, harm, key)
		},
	}
}

func TestConformance(t *testing.T) { backendtest.Run(t, conformance()) }

func BenchmarkConformance(b *testing.B) { backendtest.Bench(b, conformance()) }
