package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader"
)

// Observer feeds a [Sink]. One observer may serve any number of electors. All methods may be called concurrently. Use
// [NewObserver]: the zero value is not ready.
type Observer struct {
	sink   Sink
	name   func(name string) string
	active active
}

// NewObserver returns an observer that feeds sink. It starts nothing. names turns a name into one of few, and answers the
// same for a name each time; nil means FirstNames(DefaultNames).
func NewObserver(sink Sink, names func(name string) string) *Observer {
	if names == nil {
		names = FirstNames(DefaultNames)
	}
	return &Observer{sink: sink, name: names}
}

// Hooks returns the hooks that feed the sink, for [leader.WithHooks].
func (o *Observer) Hooks() leader.Hooks {
	return leader.Hooks{
		RunStarted:    o.runStarted,
		RunFinished:   o.runFinished,
		AcquireFailed: o.acquireFailed,
		Acquired:      o.acquired,
		Renewed:       o.renewed,
		RenewFailed:   o.renewFailed,
		Lost:          o.lost,
		Released:      o.released,
		ReleaseFailed: o.releaseFailed,
	}
}

func (o *Observer) runStarted(ctx context.Context, name string) context.Context {
	o.sink.RunStarted(ctx, o.name(name))
	return ctx
}

func (o *Observer) runFinished(ctx context.Context, name string, r leader.RunResult, err error) {
	run := Run{Result: r, Failure: err}
	run.Outcome, run.Reason = Outcome(ctx, r, err)
	o.sink.RunFinished(ctx, o.name(name), run)
}

func (o *Observer) acquireFailed(ctx context.Context, name string, err error) {
	o.sink.AcquireFailed(ctx, o.name(name), Kind(err))
	o.abandoned(ctx, name, "acquire", err)
}

func (o *Observer) acquired(ctx context.Context, l leader.LeaseInfo) {
	name := o.name(l.Name)
	o.active.add(l, name)
	o.sink.LeaseAcquired(ctx, name)
}

func (o *Observer) renewed(ctx context.Context, l leader.LeaseInfo, took time.Duration) {
	o.sink.Renewed(ctx, o.name(l.Name), took)
}

func (o *Observer) renewFailed(ctx context.Context, l leader.LeaseInfo, err error) {
	o.sink.RenewFailed(ctx, o.name(l.Name), Kind(err))
	o.abandoned(ctx, l.Name, "renew", err)
}

func (o *Observer) lost(ctx context.Context, l leader.LeaseInfo, cause error) {
	o.sink.LeaseLost(ctx, o.end(ctx, l), Cause(cause))
}

func (o *Observer) released(ctx context.Context, l leader.LeaseInfo) {
	o.sink.Released(ctx, o.end(ctx, l))
}

func (o *Observer) releaseFailed(ctx context.Context, l leader.LeaseInfo, err error) {
	o.sink.ReleaseFailed(ctx, o.end(ctx, l), Kind(err))
	o.abandoned(ctx, l.Name, "release", err)
}

// abandoned counts a call of which err says that it was given up.
func (o *Observer) abandoned(ctx context.Context, name, op string, err error) {
	if errors.Is(err, leader.ErrNoAnswer) {
		o.sink.CallAbandoned(ctx, o.name(name), op)
	}
}

// end tells the end of a lease, unless that was told before: one that was lost may still be released. It returns the name
// under which the lease is counted.
func (o *Observer) end(ctx context.Context, l leader.LeaseInfo) string {
	name, ok := o.active.remove(l)
	if !ok {
		return o.name(l.Name)
	}
	o.sink.LeaseEnded(ctx, name)
	return name
}
