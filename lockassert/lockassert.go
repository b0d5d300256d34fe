package lockassert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/internal/leasekey"
)

// ErrNotHeld says that ctx does not run under the lease that was asked for, or under none. If there was one that is over
// the error wraps [leader.ErrLeaseLost] as well, and says why.
var ErrNotHeld = errors.New("lease not held")

// Held returns nil if ctx runs under a lease of each of the names, and all of them may be trusted now; without names, if
// the innermost lease of ctx may be. Otherwise the error wraps [ErrNotHeld].
func Held(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		_, err := innermost(ctx)
		return err
	}
	for _, name := range names {
		lease, _ := ctx.Value(leasekey.Named(name)).(*leader.Lease)
		if err := trusted(lease); err != nil {
			return fmt.Errorf("lockassert: %q: %w", name, err)
		}
	}
	return nil
}

// Must panics with the error of [Held] if there is one.
func Must(ctx context.Context, names ...string) {
	if err := Held(ctx, names...); err != nil {
		panic(err)
	}
}

// innermost returns the lease under which ctx runs, if it may be trusted.
func innermost(ctx context.Context) (*leader.Lease, error) {
	lease, _ := leader.LeaseFrom(ctx)
	if err := trusted(lease); err != nil {
		return nil, fmt.Errorf("lockassert: %w", err)
	}
	return lease, nil
}

func trusted(lease *leader.Lease) error {
	if lease == nil {
		return ErrNotHeld
	}
	if err := lease.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return nil
}

// Outcome says what became of an extension. The zero Outcome is that of a call that was refused.
type Outcome uint8

// The outcomes of [Extend].
const (
	Extended     Outcome = iota + 1 // the lease lasts as long as was asked for
	NotHeld                         // there is no lease, or it is over
	BackendError                    // unknown: the store failed, or did not answer before ctx ended
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case Extended:
		return "Extended"
	case NotHeld:
		return "NotHeld"
	case BackendError:
		return "BackendError"
	}
	return "None"
}

// Extend lets the innermost lease of ctx last for at least d from now, by [leader.Lease.Extend]; it never shortens one.
// The error is nil exactly when the outcome is Extended. With NotHeld it wraps [ErrNotHeld]. After BackendError the lease
// is still held, for as long as it was before or longer. A d that is refused wraps [leader.ErrInvalidOption], and has no
// outcome. ctx also bounds the request to the store.
func Extend(ctx context.Context, d time.Duration) (Outcome, error) {
	lease, err := innermost(ctx)
	if err != nil {
		return NotHeld, err
	}
	err = lease.Extend(ctx, d)
	switch {
	case err == nil:
		return Extended, nil
	case errors.Is(err, leader.ErrInvalidOption):
		return 0, fmt.Errorf("lockassert: %w", err)
	case errors.Is(err, leader.ErrLeaseLost):
		return NotHeld, fmt.Errorf("lockassert: %w: %w", ErrNotHeld, err)
	}
	return BackendError, fmt.Errorf("lockassert: %w", err)
}
