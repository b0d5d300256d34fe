package metrics

import (
	"context"
	"time"

	"github.com/goleader/leader"
)

// Sink keeps figures. Its methods are called by hooks, concurrently: they must be quick and must not block. ctx carries
// the values of the run's context, a span for example, and may be over. Names are bounded already.
type Sink interface {
	// RunStarted counts a run, or a term of a campaign, that asks for its lease.
	RunStarted(ctx context.Context, name string)
	// RunFinished takes what became of it.
	RunFinished(ctx context.Context, name string, r Run)

	// AcquireFailed counts an attempt at which the store failed; a run or a campaign may have made more of them. kind is one
	// of [Kind].
	AcquireFailed(ctx context.Context, name, kind string)

	// LeaseAcquired counts a lease. It is active until LeaseEnded.
	LeaseAcquired(ctx context.Context, name string)
	// LeaseEnded is called once for each lease that was acquired: when it was lost, or else when its release succeeded
	// or failed.
	LeaseEnded(ctx context.Context, name string)
	// LeaseLost counts a lease that ended before its holder was done with it. cause is one of [Cause].
	LeaseLost(ctx context.Context, name, cause string)

	// Renewed counts a renewal, which took that long.
	Renewed(ctx context.Context, name string, took time.Duration)
	// RenewFailed counts a renewal that failed. kind is one of [Kind].
	RenewFailed(ctx context.Context, name, kind string)

	// Released counts a lease of whose end the store was told.
	Released(ctx context.Context, name string)
	// ReleaseFailed counts one of whose end the store could not be told. kind is one of [Kind].
	ReleaseFailed(ctx context.Context, name, kind string)

	// CallAbandoned counts a call that was given up because the store's client did not return in time; it is a failed
	// acquisition, renewal or release too. op is "acquire", "renew" or "release".
	CallAbandoned(ctx context.Context, name, op string)

	// HandedOver takes how long nobody led, as [Observer.Watch] saw it.
	HandedOver(ctx context.Context, name string, gap time.Duration)
}

// Run is what became of a run.
type Run struct {
	Outcome string           // see [Outcome]
	Reason  string           // see [Outcome]; empty if there is nothing to say
	Result  leader.RunResult // what RunIfLeader returned
	Failure error            // the error it returned: why the action did not run
}

// Led reports whether the action ran under a lease. Waited and Lease.Held of the result count then.
func (r Run) Led() bool { return r.Result.Lease.Name != "" }
