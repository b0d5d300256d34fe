package rig

import (
	"context"
	"errors"

	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/internal/testserver"
)

var errDone = errors.New("done")

// LocalRun returns a RunIfLeader on a store in memory.
func LocalRun(t testserver.TB) Op { return run(newElector(t, local.New()), "run") }

// CancelCause is one context.WithCancelCause under the Op's context, and its cancel with a cause: what anybody pays who
// hands an action a context that ends with a lease.
func CancelCause(ctx context.Context) error {
	_, cancel := context.WithCancelCause(ctx)
	cancel(errDone)
	return nil
}
