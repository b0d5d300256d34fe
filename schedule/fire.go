package schedule

import (
	"context"
	"time"
)

type fireKey struct{}

// FireTime returns the fire time for which the action that got ctx is run. It reports false outside of such a run, and
// with a [Delay].
func FireTime(ctx context.Context) (time.Time, bool) {
	fire, ok := ctx.Value(fireKey{}).(time.Time)
	return fire, ok
}

// WithFireTime returns a context that carries a fire time, for schedulers, and for tests of actions.
func WithFireTime(ctx context.Context, fire time.Time) context.Context {
	return context.WithValue(ctx, fireKey{}, fire)
}
