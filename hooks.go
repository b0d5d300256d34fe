package leader

import (
	"context"
	"time"
)

// Hooks are told what happens, for logs, metrics and traces. Any of them may be nil.
//
// They are called synchronously and outside locks. Those of one lease are called in the order in which things happen,
// one at a time; a hook that blocks delays the later ones, and may delay that lease's renewals, but never the end of a
// context. The ctx of a hook carries the values of the caller's and is only good for the time of the call.
//
// After Acquired, at least one of Lost, Released and ReleaseFailed is called for that lease; after Lost, one of the others
// may follow.
type Hooks struct {
	// RunStarted is called before a run or a term of a campaign asks for its lease. What it returns is used as the
	// context of the run, so it may add a span.
	RunStarted func(ctx context.Context, name string) context.Context
	// RunFinished is called with what the run returns. An action that did not return, because of a panic or
	// runtime.Goexit, is reported as ActionFailed with ErrNoReturn.
	RunFinished func(ctx context.Context, name string, r RunResult, err error)
	// AcquireFailed is called after each attempt to acquire a lease, or to use a run key, at which the store failed, with
	// a [*BackendError]. A call that waits goes on trying after most of them. That another has the lease is no failure.
	AcquireFailed func(ctx context.Context, name string, err error)
	// Acquired is called when a lease was acquired, before the action starts.
	Acquired func(ctx context.Context, l LeaseInfo)
	// Renewed is called after each successful renewal, which took that long.
	Renewed func(ctx context.Context, l LeaseInfo, took time.Duration)
	// RenewFailed is called after each failed renewal; the lease is not lost by it.
	RenewFailed func(ctx context.Context, l LeaseInfo, err error)
	// Lost is called when a lease ended before its holder was done with it.
	Lost func(ctx context.Context, l LeaseInfo, cause error)
	// Released is called after the store was told.
	Released func(ctx context.Context, l LeaseInfo)
	// ReleaseFailed is called when the store could not be told; the lease ends there by itself.
	ReleaseFailed func(ctx context.Context, l LeaseInfo, err error)
}

// JoinHooks returns hooks that call the given ones in order. RunStarted hands each the context of the one before it.
func JoinHooks(all ...Hooks) Hooks {
	switch len(all) {
	case 0:
		return Hooks{}
	case 1:
		return all[0]
	}
	joined := all[0]
	for _, next := range all[1:] {
		joined = joinTwo(joined, next)
	}
	return joined
}

func joinTwo(a, b Hooks) Hooks {
	return Hooks{
		RunStarted:    joinStarted(a.RunStarted, b.RunStarted),
		RunFinished:   joinFinished(a.RunFinished, b.RunFinished),
		AcquireFailed: joinFailed(a.AcquireFailed, b.AcquireFailed),
		Acquired:      join(a.Acquired, b.Acquired),
		Renewed:       joinWith(a.Renewed, b.Renewed),
		RenewFailed:   joinWith(a.RenewFailed, b.RenewFailed),
		Lost:          joinWith(a.Lost, b.Lost),
		Released:      join(a.Released, b.Released),
		ReleaseFailed: joinWith(a.ReleaseFailed, b.ReleaseFailed),
	}
}

func joinFailed(a, b func(context.Context, string, error)) func(context.Context, string, error) {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(ctx context.Context, name string, err error) { a(ctx, name, err); b(ctx, name, err) }
}

func join(a, b func(context.Context, LeaseInfo)) func(context.Context, LeaseInfo) {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(ctx context.Context, l LeaseInfo) { a(ctx, l); b(ctx, l) }
}

func joinWith[T any](a, b func(context.Context, LeaseInfo, T)) func(context.Context, LeaseInfo, T) {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(ctx context.Context, l LeaseInfo, v T) { a(ctx, l, v); b(ctx, l, v) }
}

func joinStarted(a, b func(context.Context, string) context.Context) func(context.Context, string) context.Context {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(ctx context.Context, name string) context.Context { return b(a(ctx, name), name) }
}

func joinFinished(a, b func(context.Context, string, RunResult, error)) func(context.Context, string, RunResult, error) {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(ctx context.Context, name string, r RunResult, err error) {
		a(ctx, name, r, err)
		b(ctx, name, r, err)
	}
}

// either returns b if second is set, else a.
func either[F any](a, b F, second bool) F {
	if second {
		return b
	}
	return a
}
