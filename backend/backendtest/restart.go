package backendtest

import (
	"context"
	"errors"

	"github.com/goleader/leader/backend"
)

func restartCases() []testCase {
	return []testCase{
		{
			name:  "Restart_HasOneHolder",
			rule:  ruleExclusion,
			says:  "after the store was killed a lease is either still held, alone, or lost",
			needs: needRestart,
			run:   restartHasOneHolder,
		},
		{
			name:  "Restart_KeepsTheFence",
			rule:  ruleFence,
			says:  "a fence is greater than those before the store was killed",
			needs: needRestart,
			run:   restartKeepsTheFence,
		},
	}
}

func restartHasOneHolder(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	t.cfg.Restart(t)
	err := t.answered("Renew", func(ctx context.Context) error { return g.Renew(ctx, t.long()) })
	if err == nil {
		err = t.answered("TryAcquire", func(ctx context.Context) error {
			_, err := t.tryFor(ctx, b, t.request("job", t.long()))
			return err
		})
		if !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("TryAcquire: %v, want ErrHeld, for the holder has just renewed", orSuccess(err))
		}
		return
	}
	t.Log("the lease did not survive")
	next := t.won(b, t.request("job", t.long()))
	t.grown(g.Fence(), next)
	t.lost(g)
}

func restartKeepsTheFence(t *caseT) {
	a, b := t.pair()
	var last uint64
	for range 3 {
		g := t.won(a, t.request("job", t.ttl()))
		last = t.grown(last, g)
		t.release(g, 0)
		t.cfg.Restart(t)
		// A release need not be durable: the key may come back as held, for the rest of its time.
		next := t.wonLater(b, t.request("job", t.long()))
		last = t.grown(last, next)
		t.abandoned(b, next.req)
	}
}

// won acquires a key that is free, from a store or through a connection that may be coming back.
func (t *caseT) won(d backend.Driver, req backend.Request) grant {
	t.Helper()
	var g grant
	err := t.answered("TryAcquire", func(ctx context.Context) error {
		var err error
		g, err = t.tryFor(ctx, d, req)
		return err
	})
	if err != nil {
		t.Fatalf("TryAcquire(%q) by %s: %v, want success", req.Key, req.Owner, err)
	}
	return g
}

// wonLater acquires a key that is free or becomes so within a TTL, from a store that may be coming back.
func (t *caseT) wonLater(d backend.Driver, req backend.Request) grant {
	t.Helper()
	var g grant
	t.eventually("the key is free again", t.ttl()+t.grace()+2*t.patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), t.patience/4)
		defer cancel()
		var err error
		g, err = t.tryFor(ctx, d, req)
		return err == nil
	})
	return g
}

// answered calls until the store gives an answer of its own: nil, ErrHeld or ErrLost. Each call has its share of the
// suite's patience, as one that was sent into a dead connection may never be answered.
func (t *caseT) answered(what string, call func(ctx context.Context) error) error {
	t.Helper()
	var err error
	t.eventually(what+" is answered again", 2*t.patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), t.patience/4)
		defer cancel()
		err = call(ctx)
		return err == nil || errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost)
	})
	return err
}
