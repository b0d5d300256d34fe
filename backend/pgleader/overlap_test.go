package pgleader_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/pgleader"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
)

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return ownServer(t).Addr() },
		Dial:     dial,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, site), []backendtest.Fault{
			{
				Name:   "ConnectionsTerminated",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Stage:  onTable(terminated),
			},
			{
				Name:   "RowsLocked",
				Effect: backendtest.LosesAll,
				Lasts:  3 * overlapLease,
				Stage:  onTable(locked),
			},
			{
				Name:   "RowsLockedBriefly",
				Effect: backendtest.LosesNone,
				Lease:  longOverlapLease,
				Lasts:  longOverlapLease * 2 / 5,
				Stage:  onTable(locked),
			},
		}, backendtest.ServerFaults(overlapLease, 0, site)),
	})
}

// dial opens a client of a server that the test has started.
func dial(t testing.TB, addr string) backend.Driver {
	t.Helper()
	c, err := pgxpool.ParseConfig("postgres://leader:secret@" + addr + "/postgres?sslmode=disable&pool_max_conns=8")
	if err != nil {
		t.Fatal(err)
	}
	b := pgleader.New(newPool(t, c), &pgleader.Options{CreateTable: true})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// site starts a server for a fault.
func site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	server := ownServer(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
	}
}

// onTable lets a stranger do something, with a connection of his own.
func onTable(do func(t testing.TB, stranger *pgx.Conn) (heal func())) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		server := ownServer(t)
		stranger, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stranger.Close(context.WithoutCancel(t.Context())) })
		return backendtest.Stage{
			Holder:    server.Addr(),
			Contender: server.Addr(),
			Do:        func(t testing.TB) func() { t.Helper(); return do(t, stranger) },
		}
	}
}

func terminated(t testing.TB, stranger *pgx.Conn) (heal func()) {
	t.Helper()
	_, err := stranger.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	if err != nil {
		t.Fatal(err)
	}
	return nil
}

func locked(t testing.TB, stranger *pgx.Conn) (heal func()) {
	t.Helper()
	_, err := stranger.Exec(t.Context(), "BEGIN; SELECT FROM leader_leases FOR UPDATE")
	if err != nil {
		t.Fatal(err)
	}
	return func() { _, _ = stranger.Exec(context.WithoutCancel(t.Context()), "ROLLBACK") }
}
