package leader

import (
	"context"
	"iter"

	"github.com/goleader/leader/backend"
)

// Action is work done under a lease. Its context ends when the lease does, before the store can give it to another, and
// carries the lease for [LeaseFrom]. It runs on the goroutine of the caller.
type Action = func(ctx context.Context) error

// Elector elects one leader per name. All methods may be called concurrently.
type Elector interface {
	Runner

	// Acquire hands out the lease of name. Its ctx governs the acquisition alone; work uses [Lease.Context]. The error
	// is [ErrNotElected] if another holds the lease until the wait time is used up. The caller releases the lease.
	Acquire(ctx context.Context, name string, opts ...RunOption) (*Lease, error)

	// Campaign waits as long as ctx lives, runs lead while elected, cancels its context when the lease is lost, waits
	// until it has returned, and campaigns again. It returns
	//
	//   - what lead returned, once it returns before its context is done ([WithRequeue] goes on after nil), or after it
	//     released its lease itself;
	//   - after ctx ended and lead has returned, an error that wraps ctx's cause, joined with lead's own error unless
	//     that is a context's;
	//   - a refusal of access or a misconfiguration that the store reports before its first successful answer. Later
	//     ones are logged and retried, so that a standby outlives a rotation of credentials.
	Campaign(ctx context.Context, name string, lead Action, opts ...RunOption) error

	// State asks the store who leads. The answer may be over by the time it is read.
	State(ctx context.Context, name string) (State, error)

	// Watch yields the current state at once and then every change, of which intermediate ones may merge; the newest
	// always comes. While the store cannot be asked, the last state is shown as Stale. The sequence ends with ctx, or
	// after one error that trying again would not mend. It may be used once, and breaking out of it is always safe.
	Watch(ctx context.Context, name string) iter.Seq2[State, error]
}

// Runner runs an action where a node is elected.
type Runner interface {
	// RunIfLeader runs action if this node gets the lease of name at once, or within the wait time, and releases the
	// lease when action has returned. An error means that the action did not run: the store failed, ctx ended while
	// waiting, or an argument was refused. Everything else is in the result. A panic or runtime.Goexit in action
	// releases the lease and is not recovered.
	RunIfLeader(ctx context.Context, name string, action Action, opts ...RunOption) (RunResult, error)
}

// Single is the [Elector] that [New] returns. Use New: the zero value is not ready.
type Single struct{ e *engine }

var _ Elector = (*Single)(nil)

// New returns an elector on a store. It does no I/O; all violations of the options' rules are reported at once, wrapping
// [ErrInvalidOption] or [ErrInvalidName], together with what the driver says of its own options.
func New(d backend.Driver, opts ...Option) (*Single, error) {
	e, err := newEngine(d, 0, opts)
	if err != nil {
		return nil, err
	}
	return &Single{e}, nil
}

// RunIfLeader implements [Runner].
func (s *Single) RunIfLeader(
	ctx context.Context, name string, action Action, opts ...RunOption,
) (r RunResult, err error) {
	c, err := s.e.newCall(opRun, name, action, opts)
	if err == nil {
		err = s.e.run(ctx, c, action, &r)
	}
	return r, err
}

// Acquire implements [Elector].
func (s *Single) Acquire(ctx context.Context, name string, opts ...RunOption) (*Lease, error) {
	c, err := s.e.newCall(opAcquire, name, nil, opts)
	if err != nil {
		return nil, err
	}
	return s.e.handOut(ctx, c)
}

// Campaign implements [Elector].
func (s *Single) Campaign(ctx context.Context, name string, lead Action, opts ...RunOption) error {
	c, err := s.e.newCall(opCampaign, name, lead, opts)
	if err != nil {
		return err
	}
	return s.e.campaign(ctx, c, lead)
}

// State implements [Elector].
func (s *Single) State(ctx context.Context, name string) (State, error) {
	if err := checkName("name", name); err != nil {
		return State{}, inv("state", err)
	}
	return s.e.state(ctx, name)
}

// Watch implements [Elector].
func (s *Single) Watch(ctx context.Context, name string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if err := checkName("name", name); err != nil {
			yield(State{}, inv("watch", err))
			return
		}
		s.e.watch(ctx, name, yield)
	}
}
