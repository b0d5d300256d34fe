package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/goleader/leader/backend"
)

// Outcome says what became of a run.
type Outcome uint8

// The outcomes of a run. The zero Outcome is that of a call which returned an error.
const (
	Elected      Outcome = iota + 1 // the action ran and returned nil
	Skipped                         // the action did not run
	ActionFailed                    // the action ran and returned an error
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case Elected:
		return "Elected"
	case Skipped:
		return "Skipped"
	case ActionFailed:
		return "ActionFailed"
	}
	return "None"
}

// SkipReason says why an action did not run.
type SkipReason uint8

// The reasons of a skip. The zero SkipReason is that of a run which was not skipped.
const (
	Contended     SkipReason = iota + 1 // another holds the lease, or all slots are taken
	NotPreferred                        // the strategy prefers another candidate
	AlreadyRan                          // the run key has been used
	BackendFailed                       // the store failed and the failure mode is Skip
)

// String returns the reason's name.
func (r SkipReason) String() string {
	switch r {
	case Contended:
		return "Contended"
	case NotPreferred:
		return "NotPreferred"
	case AlreadyRan:
		return "AlreadyRan"
	case BackendFailed:
		return "BackendFailed"
	}
	return "None"
}

// RunResult is what became of a run.
type RunResult struct {
	Outcome   Outcome
	Err       error         // the action's error; not nil exactly when Outcome is ActionFailed
	Lost      error         // why the lease ended before the action returned; nil if it did not
	Reason    SkipReason    // set exactly when Outcome is Skipped
	Holder    State         // who holds it, as far as known, when Contended
	Lease     LeaseInfo     // zero when Skipped or Unguarded
	Unguarded bool          // the action ran without a lease (FailOpenRun)
	Waited    time.Duration // from the call until the lease was acquired or given up
	Attempts  int           // requests for the lease that this call sent to the store
}

// OK reports that the action ran under a lease that lasted, and succeeded.
func (r RunResult) OK() bool { return r.Outcome == Elected && r.Lost == nil && !r.Unguarded }

// String is a short text for people.
func (r RunResult) String() string {
	switch {
	case r.Outcome == Skipped && r.Holder.Node != "":
		return fmt.Sprintf("Skipped (%v, held by %s)", r.Reason, r.Holder.Node)
	case r.Outcome == Skipped:
		return fmt.Sprintf("Skipped (%v)", r.Reason)
	case r.Unguarded && r.Err != nil:
		return fmt.Sprintf("%v unguarded: %v", r.Outcome, r.Err)
	case r.Unguarded:
		return fmt.Sprintf("%v unguarded", r.Outcome)
	case r.Err != nil:
		return fmt.Sprintf("%v (fence %d): %v", r.Outcome, r.Lease.Fence, r.Err)
	case r.Lost != nil:
		return fmt.Sprintf("%v (fence %d), but %v", r.Outcome, r.Lease.Fence, r.Lost)
	case r.Outcome == 0:
		return r.Outcome.String()
	}
	return fmt.Sprintf("%v (fence %d)", r.Outcome, r.Lease.Fence)
}

// LogValue groups what matters of the result.
func (r RunResult) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 6)
	attrs = append(attrs, slog.String("outcome", r.Outcome.String()))
	if r.Reason != 0 {
		attrs = append(attrs, slog.String("reason", r.Reason.String()))
	}
	if r.Lease.Fence != 0 {
		attrs = append(attrs, slog.Uint64(keyFence, r.Lease.Fence), slog.Duration("held", r.Lease.Held))
	}
	if r.Holder.Node != "" {
		attrs = append(attrs, slog.String("holder", r.Holder.Node))
	}
	if r.Unguarded {
		attrs = append(attrs, slog.Bool("unguarded", true))
	}
	if r.Lost != nil {
		attrs = append(attrs, slog.String("lost", r.Lost.Error()))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String(keyErr, r.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Result is a [RunResult] with what the action returned.
type Result[T any] struct {
	RunResult
	value T
}

// Value returns what the action returned together with its error. The error is [ErrNotElected] if it did not run, and
// wraps [ErrLeaseLost] if it succeeded but its lease was lost before it returned; the value is given then as well.
func (r Result[T]) Value() (T, error) {
	switch {
	case r.Outcome == ActionFailed:
		return r.value, r.Err
	case r.Outcome != Elected:
		return r.value, ErrNotElected
	}
	return r.value, r.Lost
}

// RunIfLeader is [Runner.RunIfLeader] for an action that returns a value.
func RunIfLeader[T any](
	ctx context.Context, r Runner, name string, action func(ctx context.Context) (T, error), opts ...RunOption,
) (Result[T], error) {
	var res Result[T]
	var err error
	if action == nil {
		res.RunResult, err = r.RunIfLeader(ctx, name, nil, opts...)
		return res, err
	}
	res.RunResult, err = r.RunIfLeader(ctx, name, func(ctx context.Context) error {
		v, err := action(ctx)
		res.value = v
		return err
	}, opts...)
	return res, err
}

// LeaseInfo describes a lease.
type LeaseInfo struct {
	Name     string
	Node     string // the node id of the elector that acquired it
	Key      string // in the store, without what the backend puts before it
	Fence    uint64
	Slot     int           // 0 outside groups
	Acquired time.Time     // by the local clock
	Lasts    time.Duration // for how long it was asked for, and is with each renewal
	Held     time.Duration // how long it was held; set in results
}

// State is who leads under a name. It was true when the store answered, and may be over by now: it is for people,
// metrics and waiting, never for deciding whether to act.
type State struct {
	Name      string
	Node      string            // the leader; empty when nobody leads
	Fence     uint64            // of the current lease
	Since     time.Time         // of its acquisition, by the store's clock where it has one
	Remaining time.Duration     // until it ends unless renewed; 0 if unknown
	Kept      bool              // nobody leads, but a minimum lease keeps the name taken
	Stale     bool              // the store could not be asked since
	Metadata  map[string]string // given by the leader
}

// stateOf turns what a driver says into what users see.
func stateOf(name string, h backend.Holder) State {
	s := State{
		Name:      name,
		Node:      h.Owner,
		Fence:     h.Fence,
		Since:     h.Since,
		Remaining: h.Remaining,
		Kept:      h.Kept,
		Metadata:  h.Metadata,
	}
	if h.Kept {
		s.Node = ""
	}
	return s
}
