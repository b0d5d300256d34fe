package pgleader_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/internal/testserver"
)

func acquire(t testing.TB, b *pgleader.Backend, name string, opts ...leader.RunOption) *leader.Lease {
	t.Helper()
	e, err := leader.New(b, leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Acquire(t.Context(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) })
	return l
}

func begin(t testing.TB, d *database) pgx.Tx {
	t.Helper()
	tx, err := d.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func TestBackend_Guard_CommitsUnderTheCurrentFence(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	d.execute(t, "CREATE TABLE orders (n int)")
	l := acquire(t, b, "a")
	for i := range 3 {
		tx := begin(t, d)
		if _, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES ($1)", i); err != nil {
			t.Fatal(err)
		}
		if err := b.Guard(t.Context(), tx, l); err != nil {
			t.Fatalf("Guard: %v", err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.ask(t, "SELECT count(*) FROM orders"); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
}

func TestBackend_Guard_RefusesAZombie(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	l := acquire(t, b, "a")
	if err := b.Break(t.Context(), l.Info().Key, l.Info().Fence); err != nil {
		t.Fatal(err)
	}
	win(t, b, request(l.Info().Key, long))
	if err := l.Err(); err != nil {
		t.Fatalf("the lease is not trusted any more: %v", err) // else it is no zombie
	}
	if err := b.Guard(t.Context(), begin(t, d), l); !errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("Guard of a zombie: %v, want ErrLeaseLost", err)
	}
	released := acquire(t, b, "b")
	if err := released.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Guard(t.Context(), begin(t, d), released); err == nil {
		t.Error("Guard of a released lease succeeded")
	}
}

func TestBackend_Guard_BlocksATakeOverAndNoOtherRenewal(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	others := win(t, b, request("other", long))
	const ttl = 500 * time.Millisecond
	l := acquire(t, b, "a", leader.WithLeaseTime(ttl), leader.WithoutAutoExtend())
	tx := begin(t, d)
	if err := b.Guard(t.Context(), tx, l); err != nil {
		t.Fatal(err)
	}
	key := l.Info().Key
	eventually(t, "the lease is over", func() bool { return inspect(t, b, key).Free() })
	type taken struct {
		lease backend.Lease
		err   error
	}
	result := make(chan taken, 1)
	go func() {
		lease, err := b.TryAcquire(t.Context(), request(key, long))
		result <- taken{lease, err}
	}()
	for end := time.Now().Add(ttl); time.Now().Before(end); {
		began := time.Now()
		renew(t, others, 2*long)
		if took := time.Since(began); took > ttl {
			t.Errorf("a renewal of another lease took %v", took)
		}
		select {
		case got := <-result:
			t.Fatalf("a take-over did not wait for the transaction: %v", got.err)
		default:
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-result:
		if got.err != nil || got.lease.Fence() <= l.Info().Fence {
			t.Errorf("the take-over after the commit: %+v", got)
		}
	case <-time.After(patience):
		t.Fatal("the take-over goes on waiting after the commit")
	}
}

func TestBackend_Guard_EndsWithItsContext(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b := d.open(t, d.pool(t))
	l := acquire(t, b, "a")
	lock(t, d, l.Info().Key)
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	err := b.Guard(ctx, begin(t, d), l)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("Guard of a locked row: %v, want the context's error", err)
	}
}
