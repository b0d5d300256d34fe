package leader

import (
	"context"
	"errors"
	"fmt"

	"github.com/goleader/leader/backend"
)

var (
	// ErrNotElected says that another node holds the lease.
	ErrNotElected = errors.New("not elected")

	// ErrLeaseLost is the cause of an action's context when its lease is over. It wraps one of the reasons below it.
	ErrLeaseLost = errors.New("lease lost")
	// ErrExpired says that the lease was not renewed before its trust deadline.
	ErrExpired = errors.New("not renewed in time")
	// ErrTakenOver says that the store has the lease no more: another took it, or it was deleted or broken.
	ErrTakenOver = errors.New("no longer ours, says the store")
	// ErrMaxHold says that the lease reached the age given by [WithMaxHold].
	ErrMaxHold = errors.New("held longer than allowed")
	// ErrReleased says that the lease was released by its holder.
	ErrReleased = errors.New("lease released")
	// ErrHandBack says that a campaigning leader made way for a better candidate, see [WithHandBack].
	ErrHandBack = errors.New("handed back to a better candidate")
	// ErrAbandoned says that an acquired lease and its context became unreachable without a release.
	ErrAbandoned = errors.New("lease abandoned without release")

	// ErrReplaced says that a candidate was enrolled anew elsewhere.
	ErrReplaced = errors.New("enrolled again elsewhere")
	// ErrReentrant says that the same elector was asked for the same name inside its own action.
	ErrReentrant = errors.New("already running under this lease")
	// ErrNoReturn is the error of a result, as hooks see it, whose action panicked or ended its goroutine.
	ErrNoReturn = errors.New("action did not return")

	// ErrInvalidName says that a name, namespace or node id breaks a rule.
	ErrInvalidName = errors.New("invalid name")
	// ErrInvalidOption says that an option's value breaks a rule, or that the option has no meaning for the call.
	ErrInvalidOption = errors.New("invalid option")
	// ErrUnsupported says that the backend lacks an ability.
	ErrUnsupported = errors.New("not supported by the backend")

	// ErrNoAnswer is in a [BackendError] whose request the library gave up, because the client did not return in time. It
	// may still be applied.
	ErrNoAnswer = errors.New("no answer in time")
	// ErrUnavailable matches a [BackendError] of kind [backend.Unavailable].
	ErrUnavailable = errors.New("store unavailable")
	// ErrDenied matches a [BackendError] of kind [backend.Denied].
	ErrDenied = errors.New("store denied access")
	// ErrMisconfigured matches a [BackendError] of kind [backend.Misconfigured].
	ErrMisconfigured = errors.New("store misconfigured")
)

// BackendError is a failure of the store: it could not be asked, or its answer is unknown. It never means that another
// node leads.
type BackendError struct {
	Op      string // acquire, renew, release, abandon, inspect, watch, record
	Backend string // the driver's name
	Name    string // the name of the leadership
	Kind    backend.Kind
	Err     error // the client's own, reachable by errors.As
}

// Error says what was tried on which name and backend, and the client's own text.
func (e *BackendError) Error() string {
	return fmt.Sprintf("leader: %s %q (%s): %v", e.Op, e.Name, e.Backend, e.Err)
}

// Unwrap returns the client's own error.
func (e *BackendError) Unwrap() error { return e.Err }

// Is matches ErrUnavailable, ErrDenied and ErrMisconfigured by kind.
func (e *BackendError) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return e.Kind == backend.Unavailable
	case ErrDenied:
		return e.Kind == backend.Denied
	case ErrMisconfigured:
		return e.Kind == backend.Misconfigured
	}
	return false
}

// passing reports whether trying again may help.
func (e *BackendError) passing() bool {
	return e.Kind == backend.Unknown || e.Kind == backend.Unavailable
}

// lost is the cause of a context whose lease is over; detail, if any, is what led to it.
func lost(why, detail error) error {
	if detail == nil {
		return fmt.Errorf("%w: %w", ErrLeaseLost, why)
	}
	return fmt.Errorf("%w: %w: %w", ErrLeaseLost, why, detail)
}

// interrupted is the error of a call on name whose own context ended.
func interrupted(ctx context.Context, op, name string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("leader: %s %q: %w", op, name, cause)
	}
	return fmt.Errorf("leader: %s %q: %w: %w", op, name, err, cause)
}
