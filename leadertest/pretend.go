package leadertest

import (
	"context"
	"fmt"
	"time"

	"github.com/goleader/leader"
)

// ages is a lease time that no test outlives.
const ages = 100 * 365 * 24 * time.Hour

var errReleased = fmt.Errorf("%w: %w", leader.ErrLeaseLost, leader.ErrReleased)

// Pretend returns a child of ctx that carries a lease of name, as the context of an action does, so that code which asks
// [leader.LeaseFrom] can be called without an election. The lease is trusted as long as ctx lives; its fence is 1. When
// ctx ends the lease is over: at once for LeaseFrom, a moment later for a [leader.Lease] that was got before. When the
// lease is released the returned context ends, but ctx does not. Nothing has to be cleaned up.
//
// A name that breaks the rules gives a context that is over, with [leader.ErrInvalidName] as its cause.
func Pretend(ctx context.Context, name string) context.Context {
	return pretend(ctx, name, newStore([]Step{Elected()}))
}

func pretend(ctx context.Context, name string, s *store) context.Context {
	own, cancel := context.WithCancelCause(ctx)
	elector := newElector(s, leader.WithHooks(endWithLease(func(cause error) {
		if ctx.Err() != nil {
			cause = context.Cause(ctx) // which own may not have been told yet
		}
		cancel(cause)
	})))
	lease, err := elector.Acquire(context.WithoutCancel(ctx), name, leader.WithLeaseTime(ages), leader.WithoutAutoExtend())
	if err != nil {
		cancel(err)
		return own
	}
	p := &pretended{Context: own, lease: lease}
	context.AfterFunc(ctx, p.release)
	return p
}

// endWithLease cancels a context when its lease is released by its holder. It must not refer to the lease: that of a
// context which everybody has forgotten, and whose parent never ends, ends as an abandoned one, unseen by whoever still
// waits on the channel of that context.
func endWithLease(cancel context.CancelCauseFunc) leader.Hooks {
	forgotten := false // the hooks of a lease are called one at a time
	return leader.Hooks{
		Lost: func(context.Context, leader.LeaseInfo, error) { forgotten = true },
		Released: func(context.Context, leader.LeaseInfo) {
			if !forgotten {
				cancel(errReleased)
			}
		},
	}
}

// pretended is a context with a lease in it.
type pretended struct {
	context.Context //nolint:containedctx // this is a context

	lease *leader.Lease
}

// Value finds the lease by a key that only package leader has. Everything else is the business of the parent, also what
// the standard library looks for.
func (p *pretended) Value(key any) any {
	if l, ok := p.lease.Context().Value(key).(*leader.Lease); !ok || l != p.lease {
		return p.Context.Value(key)
	}
	if p.Err() != nil {
		p.release()
	}
	return p.lease
}

// release ends the lease; it makes no request and cannot fail.
func (p *pretended) release() { _ = p.lease.Release(p) }
