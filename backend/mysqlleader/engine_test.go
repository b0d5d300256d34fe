package mysqlleader_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

const leaseTime = 3 * time.Second

func elector(t testing.TB, b *mysqlleader.Backend) *leader.Single {
	t.Helper()
	e, err := leader.New(b, leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// lead runs an action under an extended lease: do with the lease, and then nothing until the lease is over. It returns
// the fence, and when and why that was.
func lead(t testing.TB, b *mysqlleader.Backend, do func()) (fence uint64, end time.Time, cause error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := elector(t, b).RunIfLeader(ctx, "job", func(ctx context.Context) error {
		lease, _ := leader.LeaseFrom(ctx)
		fence = lease.Info().Fence
		do()
		<-ctx.Done()
		end, cause = time.Now(), context.Cause(ctx)
		return nil
	}, leader.WithLeaseTime(leaseTime), leader.WithAutoExtend())
	if err != nil || result.Outcome != leader.Elected {
		t.Fatalf("%v, %v", result, err)
	}
	return fence, end, cause
}

func TestElector_LosesItsLeaseInTime(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]string{
		"deleted row":     "DELETE FROM leader_leases",
		"truncated table": "TRUNCATE TABLE leader_leases",
		"dropped table":   "DROP TABLE leader_leases",
		"stolen row":      "UPDATE leader_leases SET token = 'thief', fence = fence + 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, db := start(t)
			var began time.Time
			fence, end, cause := lead(t, b, func() {
				began = time.Now()
				execute(t, db, harm)
			})
			if !errors.Is(cause, leader.ErrLeaseLost) {
				t.Errorf("the action ended with %v", cause)
			}
			if took := end.Sub(began); took > leaseTime {
				t.Errorf("noticed after %v, the lease is %v", took, leaseTime)
			}
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			execute(t, db, "UPDATE leader_leases SET until = 0, token = ''")
			if next := win(t, b, request("job", long)); next.Fence() <= fence {
				t.Errorf("fence %d follows %d", next.Fence(), fence)
			}
		})
	}
}

func TestElector_RowLockedByAStranger_LosesItsLeaseInTime(t *testing.T) {
	b, db := start(t)
	unlock := func() {}
	var began time.Time
	_, end, cause := lead(t, b, func() {
		began = time.Now()
		unlock = lockRow(t, db, "job")
	})
	if took := end.Sub(began); took > leaseTime {
		t.Errorf("noticed after %v, the lease is %v", took, leaseTime)
	}
	if !errors.Is(cause, leader.ErrExpired) {
		t.Errorf("the action ended with %v", cause)
	}
	unlock()
	eventually(t, "the key is free", func() bool { return inspect(t, b, "job").Free() })
}

func TestElector_KilledConnections_KeepTheLease(t *testing.T) {
	b, db, _ := startOwned(t, testserver.MariaDBConfig("wait_timeout=1"))
	result, err := elector(t, b).RunIfLeader(t.Context(), "job", func(ctx context.Context) error {
		for end := time.Now().Add(2 * leaseTime); time.Now().Before(end); time.Sleep(leaseTime / 20) {
			killConnections(t, db)
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	}, leader.WithLeaseTime(leaseTime), leader.WithAutoExtend())
	if err != nil || !result.OK() || result.Err != nil {
		t.Errorf("%v, %v", result, err)
	}
}

func TestElector_WaitsByPolling(t *testing.T) {
	b, db := start(t)
	lease := win(t, b, request("job", long))
	waiting := elector(t, open(t, db, nil))
	elected := make(chan error, 1)
	go func() {
		_, err := waiting.RunIfLeader(t.Context(), "job", func(context.Context) error { return nil },
			leader.WithWaitTime(patience))
		elected <- err
	}()
	if err := b.AwaitRelease(t.Context(), "job", inspect(t, b, "job").Seen); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("AwaitRelease: %v", err)
	}
	release(t, lease, 0)
	began := time.Now()
	if err := <-elected; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to see the release", took)
	}
}

func TestBackend_Guard_CommitsOnlyUnderTheCurrentLease(t *testing.T) {
	b, db := start(t)
	execute(t, db, "CREATE TABLE work (n INT PRIMARY KEY) ENGINE = InnoDB")
	lease, err := elector(t, b).Acquire(t.Context(), "job", leader.WithLeaseTime(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	write := func(n int, then func()) error {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO work VALUES (?)", n); err != nil {
			t.Fatal(err)
		}
		if err := b.Guard(t.Context(), tx, lease); err != nil {
			return err
		}
		then()
		return tx.Commit()
	}
	guarded := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*brief)
		defer cancel()
		if err := b.Break(ctx, "job", lease.Info().Fence); !timedOut(err) {
			t.Errorf("the lease could be broken while it was guarded: %v", err)
		}
	}
	if err := write(1, guarded); err != nil {
		t.Errorf("under the current lease: %v", err)
	}
	// The statement that gave up may still be waiting at the server.
	execute(t, db, "UPDATE "+sqlleader.DefaultTable+" SET token = 'thief', fence = fence + 10")
	if err := write(2, func() {}); !errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("under another's lease: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := write(3, func() {}); !errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("after the release: %v", err)
	}
	if n := number(t, db, "SELECT SUM(n) FROM work"); n != 1 {
		t.Errorf("the sum of what was written is %d, want 1", n)
	}
}
