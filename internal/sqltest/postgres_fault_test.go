package sqltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

const (
	shortLease = 1500 * time.Millisecond
	// slack is what a busy machine may add to a time.
	slack = 5 * time.Second
)

// started runs an action that lasts as long as its lease, and returns when it runs.
func started(t testing.TB, e leader.Elector, name string) (end <-chan leader.RunResult) {
	t.Helper()
	running, result := make(chan struct{}), make(chan leader.RunResult, 1)
	go func() {
		r, err := e.RunIfLeader(t.Context(), name, func(ctx context.Context) error {
			close(running)
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Errorf("RunIfLeader(%q): %v", name, err)
		}
		result <- r
	}()
	receive(t, "the action runs", running)
	return result
}

// endsInTime checks that a lease and a run end because they cannot be renewed from now on, and that the store can give
// the name of the run to another then.
func endsInTime(t testing.TB, l *leader.Lease, run <-chan leader.RunResult, from time.Time) {
	t.Helper()
	if err := lost(t, l); !errors.Is(err, leader.ErrExpired) {
		t.Errorf("the lease: %v", err)
	}
	if r := receive(t, "the run ends", run); !errors.Is(r.Lost, leader.ErrExpired) {
		t.Errorf("the run: %v", r)
	}
	if took := time.Since(from); took > shortLease+slack {
		t.Errorf("it took %v, of leases of %v", took, shortLease)
	}
}

func TestPostgreSQL_FrozenConnection_EndsLeasesAndRunsInTime(t *testing.T) {
	t.Parallel()
	asideForEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, _, proxy := d.behind(t, schema)
		other, _ := d.open(t, schema)
		e := elector(t, b, leader.WithLeaseTime(shortLease))
		l, run := lead(t, e, "held"), started(t, e, "run")
		fence := l.Info().Fence
		frozen := time.Now()
		proxy.Freeze()
		defer proxy.Thaw()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := e.RunIfLeader(ctx, "new", nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunIfLeader: %v", err)
		}
		endsInTime(t, l, run, frozen)
		if _, err := e.RunIfLeader(t.Context(), "new", nothing); !errors.Is(err, leader.ErrUnavailable) {
			t.Errorf("RunIfLeader: %v", err)
		}
		next := lead(t, elector(t, other, leader.WithWaitTime(patience)), "held")
		if next.Info().Fence <= fence {
			t.Errorf("fence %d follows %d", next.Info().Fence, fence)
		}
		proxy.Thaw()
		eventually(t, "the thawed one is answered", func() bool {
			r, err := e.RunIfLeader(t.Context(), "held", nothing)
			return err == nil && r.Reason == leader.Contended
		})
		if err := next.Extend(t.Context(), long/5); err != nil {
			t.Errorf("the successor was disturbed: %v", err)
		}
	})
}

func nothing(context.Context) error { return nil }

func TestPostgreSQL_ALeaseOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	asideForEachPostgres(t, func(t *testing.T, d *database) {
		b, _ := d.open(t, d.newSchema(t))
		renewals := make(chan struct{}, 100)
		e := elector(t, b, leader.WithLeaseTime(lease), leader.WithHooks(leader.Hooks{
			Renewed: func(context.Context, leader.LeaseInfo, time.Duration) { renewals <- struct{}{} },
		}))
		l := lead(t, e, "job")
		for range 2 {
			terminate(t, d.server)
			receive(t, "the lease is renewed", renewals)
		}
		if err := l.Err(); err != nil {
			t.Errorf("the lease: %v", err)
		}
		if h := inspect(t, b, l.Info().Key); h.Fence != l.Info().Fence {
			t.Errorf("in the table: %+v", h)
		}
	})
}

func TestPostgreSQL_ALeaseOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	asideForEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, _ := d.open(t, schema)
		other, _ := d.open(t, schema)
		l := lead(t, elector(t, b, leader.WithLeaseTime(lease)), "job")
		d.server.Restart(t)
		trusted := l.TrustedUntil()
		eventually(t, "the lease is renewed, and is another's to nobody", func() bool {
			if _, err := other.TryAcquire(t.Context(), request(l.Info().Key, long)); err == nil {
				t.Fatal("another got it")
			}
			return l.TrustedUntil().After(trusted)
		})
		if h := inspect(t, other, l.Info().Key); h.Fence != l.Info().Fence || l.Err() != nil {
			t.Errorf("in the table: %+v, the lease: %v", h, l.Err())
		}
	})
}

// A session that is idle in a transaction, and never ends, is how rows stay locked.
func TestPostgreSQL_ARowThatAStrangerHasLocked(t *testing.T) {
	t.Parallel()
	asideForEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, _ := d.open(t, schema)
		other, _ := d.open(t, schema)
		e := elector(t, b, leader.WithLeaseTime(shortLease))
		held := win(t, b, request("long", long))
		l, run := lead(t, e, "job"), started(t, e, "run")
		stranger, err := d.admin.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Rollback() //nolint:errcheck // it may be over
		if _, err := stranger.ExecContext(t.Context(), "SELECT FROM "+schema+".leader_leases FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		locked := time.Now()

		t.Run("does not block those who lose", func(t *testing.T) {
			for range 50 {
				if h := refused(t, other, "long"); h.Fence != held.Fence() {
					t.Errorf("holder %+v", h)
				}
				inspect(t, other, "long")
			}
			if took := time.Since(locked); took > slack {
				t.Errorf("it took %v", took)
			}
		})
		t.Run("ends leases in time", func(t *testing.T) { endsInTime(t, l, run, locked) })
		t.Run("ends calls with their context", func(t *testing.T) {
			eventually(t, "the lease has expired", func() bool { return inspect(t, other, l.Info().Key).Free() })
			for name, call := range map[string]func(ctx context.Context) error{
				"Renew":   func(ctx context.Context) error { return held.Renew(ctx, long) },
				"Release": func(ctx context.Context) error { return held.Release(ctx, 0) },
				"TryAcquire": func(ctx context.Context) error {
					_, err := other.TryAcquire(ctx, request(l.Info().Key, long))
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				began := time.Now()
				err := call(ctx)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
				wantKind(t, name, err, backend.Unavailable)
				if took := time.Since(began); took > slack {
					t.Errorf("%s took %v", name, took)
				}
			}
			if _, err := e.RunIfLeader(t.Context(), "job", nothing); !errors.Is(err, leader.ErrUnavailable) {
				t.Errorf("RunIfLeader of an expired name: %v", err)
			}
		})
		if err := stranger.Rollback(); err != nil {
			t.Fatal(err)
		}
		var next backend.Lease
		eventually(t, "what waited for the row and was given up is cleaned up", func() bool {
			next, err = other.TryAcquire(t.Context(), request(l.Info().Key, long))
			return err == nil
		})
		if next.Fence() <= l.Info().Fence {
			t.Errorf("fence %d follows %d", next.Fence(), l.Info().Fence)
		}
		if err := held.Renew(t.Context(), long); err != nil {
			t.Errorf("a lease that was long enough: %v", err)
		}
		eventually(t, "no statement waits", func() bool {
			return queryOne[int](t, d.admin, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`) == 0
		})
	})
}
