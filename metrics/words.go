package metrics

import (
	"context"
	"errors"

	"github.com/goleader/leader"
)

// Outcomes of runs, see [Outcome].
const (
	Elected      = "elected"       // the action ran and returned nil
	ActionFailed = "action_failed" // the action ran and returned an error, or did not return
	Skipped      = "skipped"       // the action did not run, which is no failure
	NotRun       = "not_run"       // the action did not run because of an error
)

// Words that say more about an outcome, about the end of a lease, or about a failure of the store.
const (
	Contended    = "contended"     // skipped: another holds the lease
	NotPreferred = "not_preferred" // skipped: the strategy prefers another candidate
	AlreadyRan   = "already_ran"   // skipped: the run key has been used
	StoreFailed  = "store_failed"  // skipped: the store failed and the failure mode is Skip

	Lost        = "lost"        // ran, or did not come to run: the lease was lost
	Unguarded   = "unguarded"   // ran without a lease, as the store failed and the failure mode is FailOpenRun
	NoReturn    = "no_return"   // ran, and panicked or ended its goroutine
	Canceled    = "canceled"    // ran or not: the caller's context is over
	Reentrant   = "reentrant"   // not run: already inside a run of that name
	Unsupported = "unsupported" // not run: the backend lacks an ability

	Unknown       = "unknown"       // the store failed in a way that its backend does not know
	Unavailable   = "unavailable"   // the store cannot be reached, has no quorum, or does not answer in time
	Denied        = "denied"        // the store refused access
	Misconfigured = "misconfigured" // the store lacks what the backend needs

	Expired   = "expired"    // lost: not renewed in time
	TakenOver = "taken_over" // lost: the store says that it is no longer ours
	MaxHold   = "max_hold"   // ended at the age that WithMaxHold allows
	HandBack  = "hand_back"  // ended for a better candidate
	Abandoned = "abandoned"  // its holder forgot to release it
)

// Outcome says what became of a run, as a hook was told: one of [Elected], [ActionFailed], [Skipped] and [NotRun], and why
// in one more word. The reason of a run that is as it should be is empty.
//
//   - Elected, ActionFailed: Lost, Unguarded, NoReturn or Canceled;
//   - Skipped: Contended, NotPreferred, AlreadyRan or StoreFailed;
//   - NotRun: Unknown, Unavailable, Denied, Misconfigured, Canceled, Lost, Reentrant, Unsupported or [Other].
func Outcome(ctx context.Context, r leader.RunResult, err error) (outcome, reason string) {
	switch {
	case err != nil:
		return NotRun, whyNotRun(ctx, err)
	case r.Outcome == leader.Skipped:
		return Skipped, whySkipped(r.Reason)
	case r.Outcome == leader.Elected:
		return Elected, howRun(ctx, r)
	case r.Outcome == leader.ActionFailed:
		return ActionFailed, howRun(ctx, r)
	}
	return NotRun, Other
}

func whyNotRun(ctx context.Context, err error) string {
	if endedBy(ctx, err) {
		return Canceled
	}
	if kind, ok := kindOf(err); ok {
		return kind
	}
	switch {
	case errors.Is(err, leader.ErrLeaseLost):
		return Lost
	case errors.Is(err, leader.ErrReentrant):
		return Reentrant
	case errors.Is(err, leader.ErrUnsupported):
		return Unsupported
	}
	return Other
}

func whySkipped(reason leader.SkipReason) string {
	switch reason {
	case leader.Contended:
		return Contended
	case leader.NotPreferred:
		return NotPreferred
	case leader.AlreadyRan:
		return AlreadyRan
	case leader.BackendFailed:
		return StoreFailed
	}
	return Other
}

func howRun(ctx context.Context, r leader.RunResult) string {
	switch {
	case r.Unguarded:
		return Unguarded
	case r.Lost != nil && !errors.Is(r.Lost, leader.ErrReleased):
		return Lost
	case errors.Is(r.Err, leader.ErrNoReturn):
		return NoReturn
	case r.Err != nil && endedBy(ctx, r.Err):
		return Canceled
	}
	return ""
}

// endedBy reports whether err only says that ctx is over.
func endedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// Cause says why a lease ended before its holder was done with it: [Expired], [TakenOver], [MaxHold], [HandBack],
// [Abandoned] or [Other]. MaxHold and HandBack are ends by rule, the others are not.
func Cause(err error) string {
	switch {
	case errors.Is(err, leader.ErrTakenOver):
		return TakenOver
	case errors.Is(err, leader.ErrMaxHold):
		return MaxHold
	case errors.Is(err, leader.ErrHandBack):
		return HandBack
	case errors.Is(err, leader.ErrAbandoned):
		return Abandoned
	case errors.Is(err, leader.ErrExpired):
		return Expired
	}
	return Other
}

// Kinds are all that [Kind] returns.
func Kinds() []string { return []string{Unknown, Unavailable, Denied, Misconfigured} }

// Kind says how the store failed: [Unknown], [Unavailable], [Denied] or [Misconfigured]. An error that is none of the
// store's is Unknown.
func Kind(err error) string {
	kind, _ := kindOf(err)
	return kind
}

// kindOf reports false if err is none of the store's.
func kindOf(err error) (kind string, ok bool) {
	failure, ok := errors.AsType[*leader.BackendError](err)
	if !ok {
		return Unknown, false
	}
	switch {
	case errors.Is(failure, leader.ErrUnavailable):
		return Unavailable, true
	case errors.Is(failure, leader.ErrDenied):
		return Denied, true
	case errors.Is(failure, leader.ErrMisconfigured):
		return Misconfigured, true
	}
	return Unknown, true
}
