package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// failing is a driver whose renewals fail, and tell when they are made.
type failing struct {
	*local.Backend
	sent chan struct{}
}

func (d failing) Limits() backend.Limits { return backend.Limits{} }
func (d failing) TryAcquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := d.Backend.TryAcquire(ctx, r)
	return failingLease{l, d.sent}, err
}

type failingLease struct {
	backend.Lease
	sent chan struct{}
}

func (l failingLease) Renew(context.Context, time.Duration) error {
	l.sent <- struct{}{}
	time.Sleep(50 * time.Millisecond)
	return errors.New("down")
}

// slowDone is a context that takes long, once, to answer Done.
type slowDone struct {
	context.Context //nolint:containedctx // this is a context
	slow            *atomic.Bool
	then            func()
}

func (c slowDone) Done() <-chan struct{} {
	if c.slow.CompareAndSwap(true, false) {
		time.Sleep(100 * time.Millisecond) // meanwhile the renewal of b fails
		c.then()                           // and the machine has slept
	}
	return c.Context.Done()
}

// A question to the inner context may end the outer one, which tells the scheduler, which at the same time may hold what
// the inner lease's failing renewal needs.
func TestLeaseContext_OfNestedLeasesDoesNotDeadlock(t *testing.T) {
	d := failing{local.New(), make(chan struct{}, 100)}
	e, err := New(d, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			var slow atomic.Bool
			parent := slowDone{ctx, &slow, func() { e.e.clock.slept.Add(int64(time.Hour)) }}
			_, err := e.RunIfLeader(parent, "b", func(ctx context.Context) error {
				<-d.sent
				slow.Store(true)
				<-ctx.Done()
				return nil
			}, WithLeaseTime(600*time.Millisecond))
			return err
		}, WithoutAutoExtend())
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("deadlock")
	}
}
