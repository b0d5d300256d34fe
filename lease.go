package leader

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// Lease is the right to lead, held by this process. [Elector.Acquire] hands it out, and [LeaseFrom] finds the one under
// which an action runs. All methods may be called concurrently.
//
// A lease that was acquired is released by its holder. If neither it nor a context derived from it can be reached any
// more, it counts as abandoned, and is released, with a warning, within a second of the garbage collector's finding. A
// derived context that can still be cancelled, or a function registered with [context.AfterFunc], keeps it in use.
type Lease struct{ h *hold }

// newLease is a handle of h to hand out. h is marked as forgotten when neither it nor its context can be reached any more.
func newLease(h *hold) *Lease {
	l := &Lease{h}
	runtime.AddCleanup(l, (*hold).forget, h)
	return l
}

// Context ends when the lease is over, with a cause that wraps [ErrLeaseLost] and says why. It carries the lease. Under
// RunIfLeader and Campaign it is the action's own context; else it has the values of the context given to Acquire, but
// not its end.
func (l *Lease) Context() context.Context { return (*leaseContext)(l) }

// Info describes the lease.
func (l *Lease) Info() LeaseInfo {
	return l.h.info()
}

// TrustedUntil is the trust deadline: the local instant at which the lease is over unless it is extended meanwhile.
func (l *Lease) TrustedUntil() time.Time {
	l.h.e.clock.now() // which notices that the machine has slept
	return l.h.e.clock.time(l.h.trustedUntil())
}

// Err is nil while the lease may be trusted, and says afterwards why it is over; the error wraps [ErrLeaseLost]. It
// reads the clock, and makes no request.
func (l *Lease) Err() error { return l.h.err() }

// Extend asks the store to let the lease last for at least d from now, and never less than what is left of its minimum.
// A nil error means that it will, also without auto-extension; ErrLeaseLost that it is over; a [*BackendError] that the
// outcome is unknown. ctx bounds the request.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	defer runtime.KeepAlive(l)
	return l.h.extendBy(ctx, d)
}

// Release ends the lease. Inside an action it ends the action's context at once, and the store is told when the action
// has returned. Otherwise the store is told before Release returns, in at most 5 s, which the end of ctx does not
// cut short: a shutdown must not orphan a lease. Releasing again is nil; releasing a lost lease is why it was lost.
func (l *Lease) Release(context.Context) error {
	h := l.h
	defer runtime.KeepAlive(l) // or it would count as forgotten meanwhile
	err := h.err()
	h.end(errReleased)
	if h.scoped {
		return ownRelease(err)
	}
	if failed := h.finish(h.e.clock.now()); failed != nil {
		return failed
	}
	return ownRelease(err)
}

// ownRelease is err unless it says that the lease was released before.
func ownRelease(err error) error {
	if errors.Is(err, ErrReleased) {
		return nil
	}
	return err
}

// LeaseFrom returns the lease under which ctx runs. It reports true only while the lease may be trusted, and reads the
// clock for it; a lease that is over is returned with false, for its Err.
func LeaseFrom(ctx context.Context) (*Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	if !ok {
		return nil, false
	}
	return l, l.h.err() == nil
}
