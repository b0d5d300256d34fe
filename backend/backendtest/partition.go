package backendtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

func partitionCases() []testCase {
	return []testCase{
		{
			name:  "Partition_EndsCalls",
			rule:  ruleContext,
			says:  "calls over a frozen connection return soon after their context ends, unless the driver is Blocking",
			needs: needPartition,
			run:   partitionEndsCalls,
		},
		{
			name:  "Partition_EndsAbilities",
			rule:  ruleContext,
			says:  "the calls of abilities over a frozen connection return likewise",
			needs: needPartition,
			run:   partitionEndsAbilities,
		},
		{
			name:  "Partition_EndsWaiters",
			rule:  abilityWaiter,
			says:  "AwaitRelease over a frozen connection returns soon after its context ends, Blocking or not",
			needs: needPartition,
			run:   partitionEndsWaiters,
		},
		{
			name:  "Partition_Heals",
			rule:  ruleContext,
			says:  "a client whose connection was frozen works again",
			needs: needPartition,
			run:   partitionHeals,
		},
		{
			name:  "Partition_ReplacesTheHolder",
			rule:  ruleExclusion,
			says:  "a holder that cannot reach the store is replaced, and is told so when it can",
			needs: needPartition,
			run:   partitionReplacesTheHolder,
		},
		{
			name:  "Partition_LeavesNoOrphan",
			rule:  ruleIdempotence,
			says:  "an attempt that got stuck and was abandoned holds the key for one TTL at most",
			needs: needPartition,
			run:   partitionLeavesNoOrphan,
		},
	}
}

func partitionEndsCalls(t *caseT) {
	a, _ := t.pair()
	g := t.win(a, t.request("job", t.long()))
	heal := t.partition()
	defer heal()
	calls := map[string]func(ctx context.Context) error{
		"TryAcquire": func(ctx context.Context) error {
			_, err := a.TryAcquire(ctx, t.request("other", t.ttl()))
			return err
		},
		"Inspect": func(ctx context.Context) error {
			_, err := a.Inspect(ctx, "other")
			return err
		},
		"Abandon": func(ctx context.Context) error { return a.Abandon(ctx, t.request("other", t.ttl())) },
		"Renew":   func(ctx context.Context) error { return g.Renew(ctx, t.long()) },
		"Release": func(ctx context.Context) error { return g.Release(ctx, 0) },
	}
	t.endsCalls(calls, heal)
}

// endsCalls makes calls over a frozen connection and waits for them.
func (t *caseT) endsCalls(calls map[string]func(ctx context.Context) error, heal func()) {
	t.Helper()
	returned := make(chan bool, len(calls))
	for name, call := range calls {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), t.ttl()/4)
			defer cancel()
			err := call(ctx)
			known := err == nil || errors.Is(err, backend.ErrLost) || errors.Is(err, backend.ErrHeld) ||
				errors.Is(err, backend.ErrConflict)
			if known && !t.limits.Blocking { // whose calls may get their answer after all
				t.Errorf("%s over a frozen connection: %v, want an error of unknown outcome", name, orSuccess(err))
			}
			returned <- true
		}()
	}
	if t.limits.Blocking {
		t.Log("the driver is Blocking: its calls are awaited after the connection is back")
		t.pause(t.ttl() / 4)
		heal()
	}
	for range calls {
		t.await("a call over a frozen connection returns", returned)
	}
}

func partitionEndsWaiters(t *caseT) {
	a, b := t.pair()
	w := t.waiter(a)
	t.win(b, t.request("job", t.long()))
	seen := t.seen(a, false)
	heal := t.partition()
	defer heal()
	t.endsWaiters(w, seen)
}

func partitionHeals(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	heal := t.partition()
	defer heal()
	t.stuck(func(ctx context.Context) error { return g.Renew(ctx, t.long()) }, heal)
	err := t.answered("Renew", func(ctx context.Context) error { return g.Renew(ctx, t.long()) })
	if err != nil {
		t.Fatalf("Renew after the connection is back: %v, want nil", err)
	}
	t.refused(b, t.request("job", t.long()))
	t.release(g, 0)
	t.free(b, "job")
}

func partitionReplacesTheHolder(t *caseT) {
	a, b := t.pair()
	old := t.win(a, t.request("job", t.ttl()))
	heal := t.partition()
	defer heal()
	next := t.takenThough(b, t.request("job", t.long()), old.sure(), func(err error) bool {
		return errors.Is(err, backend.ErrHeld) || t.cfg.PartitionsLeader && backend.KindOf(err) == backend.Unavailable
	})
	heal()
	before := t.inspect(b, "job")
	err := t.answered("Renew", func(ctx context.Context) error { return old.Renew(ctx, t.ttl()) })
	if !errors.Is(err, backend.ErrLost) {
		t.Fatalf("Renew after a takeover: %v, want ErrLost", orSuccess(err))
	}
	t.unharmed(b, next, before)
}

func partitionLeavesNoOrphan(t *caseT) {
	a, b := t.pair()
	t.release(t.win(a, t.request("job", t.ttl())), 0)
	heal := t.partition()
	defer heal()
	req := t.request("job", t.ttl())
	t.stuck(func(ctx context.Context) error {
		_, err := a.TryAcquire(ctx, req)
		return err
	}, heal)
	err := t.answered("Abandon", func(ctx context.Context) error { return a.Abandon(ctx, req) })
	if err != nil {
		t.Fatalf("Abandon after the connection is back: %v, want nil", err)
	}
	t.pause(t.ttl()) // whatever arrived late has ended by then
	t.taken(b, t.request("job", t.long()), time.Time{})
}

// partition freezes the first client. The returned function may be called more than once.
func (t *caseT) partition() (heal func()) {
	t.Helper()
	return sync.OnceFunc(t.cfg.Partition(t, 0))
}

// stuck makes a call over a frozen connection, lets its context end, waits for the call and thaws the connection. The
// call of a Blocking driver needs not return before.
func (t *caseT) stuck(call func(ctx context.Context) error, heal func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), t.ttl()/4)
	defer cancel()
	returned := make(chan bool, 1)
	go func() {
		if err := call(ctx); err == nil && !t.limits.Blocking {
			t.Error("a call over a frozen connection succeeded")
		}
		returned <- true
	}()
	<-ctx.Done()
	if t.limits.Blocking {
		heal()
	}
	t.await("a call over a frozen connection returns", returned)
	heal()
}
