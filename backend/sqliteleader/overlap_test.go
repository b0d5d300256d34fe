package sqliteleader_test

import (
	"context"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
)

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start: newPath,
		Dial: func(t testing.TB, path string) backend.Driver {
			t.Helper()
			return open(t, path)
		},
		Fidelity: backendtest.Embedded,
		Lease:    overlapLease,
		Faults: []backendtest.Fault{
			{
				Name:   "StrangersWriteLock",
				Effect: backendtest.LosesAll,
				Lasts:  3 * overlapLease,
				Within: 3 * time.Second,
				Stage:  locked,
			},
			{
				Name:   "StrangersBriefWriteLock",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  locked,
			},
		},
	})
}

// locked is a file of which a stranger takes the write lock.
func locked(t testing.TB) backendtest.Stage {
	t.Helper()
	path := newPath(t)
	return backendtest.Stage{
		Holder:    path,
		Contender: path,
		Do: func(t testing.TB) func() {
			t.Helper()
			conn, err := handle(t, path).Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			ctx := context.WithoutCancel(t.Context()) // it is healed after the test at the latest
			return func() {
				if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
					t.Errorf("rollback: %v", err)
				}
				if err := conn.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
		},
	}
}
