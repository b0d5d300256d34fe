package hazelcastleader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// ending is a context that is over after some looks at it.
type ending struct {
	context.Context //nolint:containedctx // it is one

	looks atomic.Int32
}

func (c *ending) Err() error {
	if c.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Whenever the context ends, a change that was refused is not taken for an answer: the entry has to be looked at, and is
// still the lease's.
func TestLease_ContextEndsAtARefusedChange_TellsNothing(t *testing.T) {
	b, m := start(t)
	for looks := range int32(20) {
		req := request("job", long)
		lease := win(t, b, req)
		win(t, b, req) // which changes the entry, as the lease does not know
		ctx := &ending{Context: t.Context()}
		ctx.looks.Store(looks)
		if err := lease.Renew(ctx, 2*long); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("after %d looks Renew: %v", looks, err)
		}
		win(t, b, req)
		ctx.looks.Store(looks)
		err := lease.Release(ctx, 0)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("after %d looks Release: %v", looks, err)
		}
		if h := inspect(t, b, "job"); err == nil && !h.Free() {
			t.Errorf("after %d looks it was released, and is held by %+v", looks, h)
		}
		if err := m.Delete(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
	}
}
