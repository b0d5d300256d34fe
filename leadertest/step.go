package leadertest

import (
	"errors"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// Step is the answer to one attempt to get a lease, for [Script]. The zero Step is [Elected].
type Step struct {
	holder string        // who has the lease instead; only if held
	held   bool          // by another
	err    error         // of the store; nil if it answers
	lost   time.Duration // when the lease is lost; only if loses
	loses  bool
}

// Elected grants the lease.
func Elected() Step { return Step{} }

// HeldBy says that another node has the lease. An empty holder is one whose name is not known.
func HeldBy(holder string) Step { return Step{holder: holder, held: true} }

// LostAfter grants the lease and takes it away d after that, with [leader.ErrTakenOver]. A d that is not positive takes
// it away at once, which an action may notice only when it has started.
func LostAfter(d time.Duration) Step { return Step{lost: d, loses: true} }

// Fails is a store that fails: the call's error is a [leader.BackendError] with err inside. Its kind is that of
// [backend.WithKind], or is told by an err that wraps [leader.ErrUnavailable], [leader.ErrDenied] or
// [leader.ErrMisconfigured]; else it is Unknown. A nil err is ErrUnavailable. Callers that wait try again after an error
// of kind Unknown or Unavailable.
func Fails(err error) Step {
	if err == nil {
		err = leader.ErrUnavailable
	}
	return Step{err: kinded(err)}
}

// kinded gives an error that has no kind the one of the leader's error that it wraps.
func kinded(err error) error {
	if backend.KindOf(err) != backend.Unknown {
		return err
	}
	switch {
	case errors.Is(err, leader.ErrDenied):
		return backend.WithKind(err, backend.Denied)
	case errors.Is(err, leader.ErrMisconfigured):
		return backend.WithKind(err, backend.Misconfigured)
	case errors.Is(err, leader.ErrUnavailable):
		return backend.WithKind(err, backend.Unavailable)
	}
	return err
}

// holderAt is the holder of a step that is held by another.
func (s Step) holderAt(fence uint64) backend.Holder {
	return backend.Holder{Owner: s.holder, Fence: fence}
}
