package leader

import (
	"context"
	"sync"
	"time"
)

// boundContext is a context with a deadline that arms its timer only when somebody asks for Done. It spares drivers that never
// wait, or that use the deadline alone, the cost of one for each request.
type boundContext struct {
	context.Context //nolint:containedctx // this is a context
	deadline        time.Time

	mu     sync.Mutex
	inner  context.Context //nolint:containedctx // the standard one that children attach to
	cancel context.CancelFunc
}

// withBound returns ctx bounded by d from now on. Its stop releases the timer.
func withBound(ctx context.Context, now time.Time, d time.Duration) *boundContext {
	b := new(boundContext)
	b.set(ctx, now, d)
	return b
}

// set makes b, which must be new, ctx bounded by d from now on.
func (b *boundContext) set(ctx context.Context, now time.Time, d time.Duration) {
	b.Context, b.deadline = ctx, now.Add(d)
}

func (b *boundContext) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *boundContext) Deadline() (time.Time, bool) {
	if d, ok := b.Context.Deadline(); ok && d.Before(b.deadline) {
		return d, true
	}
	return b.deadline, true
}

func (b *boundContext) Done() <-chan struct{} { return b.standard().Done() }

func (b *boundContext) Err() error {
	b.mu.Lock()
	inner := b.inner
	b.mu.Unlock()
	if inner != nil {
		return inner.Err()
	}
	if err := b.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(b.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

func (b *boundContext) Value(key any) any {
	b.mu.Lock()
	inner := b.inner
	b.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return b.Context.Value(key)
}

// standard returns the context of the standard library that does the work from now on.
func (b *boundContext) standard() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		b.inner, b.cancel = context.WithDeadline(b.Context, b.deadline)
	}
	return b.inner
}
