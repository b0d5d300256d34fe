package sqltest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

func TestPostgreSQL_Migrate_FromTwentyConnectionsAtOnce(t *testing.T) {
	const connections, rounds = 20, 3
	forEachPostgres(t, func(t *testing.T, d *database) {
		for range rounds {
			schema := d.newSchema(t)
			db := d.connect(t, d.server.Addr(), schema)
			db.SetMaxOpenConns(connections)
			together(connections, func(int) {
				if err := d.on(t, db, nil).Migrate(t.Context()); err != nil {
					t.Errorf("Migrate: %v", err)
				}
			})
			var won atomic.Int32
			execute(t, db, "DROP TABLE leader_leases, leader_leases_records")
			together(connections, func(int) {
				b := d.on(t, db, &sqlleader.Options{CreateTable: true})
				_, err := b.TryAcquire(t.Context(), request("job", long))
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, backend.ErrHeld):
					t.Errorf("TryAcquire: %v", err)
				}
			})
			if n := won.Load(); n != 1 {
				t.Errorf("%d have won", n)
			}
		}
	})
}

// together calls f n times at once.
func together(n int, f func(i int)) {
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		running.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	running.Wait()
}

func TestPostgreSQL_Schema_MayBeExecutedByHand(t *testing.T) {
	d := postgres(t, "pgx")
	schema := d.newSchema(t)
	b := d.on(t, d.admin, &sqlleader.Options{Table: schema + ".leases"})
	for range 2 {
		for _, statement := range b.Schema() {
			execute(t, d.admin, statement)
		}
	}
	win(t, b, request("job", long))
	if _, err := b.PutRecord(t.Context(), backend.Record{Key: "job!run/1"}); err != nil {
		t.Error(err)
	}
}

// Attempts that fail in each way there is: another has it, nobody may ask, no table, and a caller who gives up.
func TestPostgreSQL_AThousandFailingAcquisitions_LeaveNothing(t *testing.T) {
	const rounds = 1000
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, db := d.open(t, schema)
		win(t, b, request("job", long))
		broken := d.on(t, db, &sqlleader.Options{Table: "absent"})
		readOnly := d.withSettings(t, schema, map[string]string{"default_transaction_read_only": "on"})
		// The engine tries to clean up after an attempt for as long as a lease.
		var electors []*leader.Single
		for _, b := range []*sqlleader.Backend{b, broken, d.on(t, readOnly, nil)} {
			electors = append(electors, elector(t, b, leader.WithLeaseTime(shortLease)))
		}
		round := func(i int) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if i%10 == 3 {
				ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i%20)*50*time.Microsecond)
			}
			defer cancel()
			if r, err := electors[i%3].RunIfLeader(ctx, "job", nothing); r.OK() {
				t.Errorf("attempt %d: %v, %v", i, r, err)
			}
		}
		for i := range 20 {
			round(i)
		}
		unused := func() bool { return db.Stats().InUse == 0 && readOnly.Stats().InUse == 0 }
		eventually(t, "no connection is in use", unused)
		goroutines := runtime.NumGoroutine()
		for i := range rounds {
			round(i)
		}
		eventually(t, "no connection is in use", unused)
		eventually(t, "no goroutine remains", func() bool { return runtime.NumGoroutine() <= goroutines+10 })
		eventually(t, "the server has no sessions but those of the pools", func() bool {
			return sessions(t, d) == db.Stats().OpenConnections+readOnly.Stats().OpenConnections+1
		})
	})
}

// sessions counts those of clients, that of the one who asks included.
func sessions(t testing.TB, d *database) int {
	t.Helper()
	return queryOne[int](t, d.admin, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
}
