package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/metrics"
)

func TestOutcome_SaysWhatBecameOfARun(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	shutdown := errors.New("shutdown")
	cancel(shutdown)
	failure := func(kind backend.Kind) error { return &leader.BackendError{Kind: kind, Err: errors.New("no")} }
	lost := fmt.Errorf("%w: %w", leader.ErrLeaseLost, leader.ErrExpired)
	rows := []struct {
		over   bool // the run's context
		result leader.RunResult
		err    error
		want   string
	}{
		{false, leader.RunResult{Outcome: leader.Elected}, nil, "elected "},
		{false, leader.RunResult{Outcome: leader.Elected, Lost: lost}, nil, "elected lost"},
		{false, leader.RunResult{Outcome: leader.Elected, Unguarded: true}, nil, "elected unguarded"},
		{false, leader.RunResult{
			Outcome: leader.Elected, Lost: fmt.Errorf("%w: %w", leader.ErrLeaseLost, leader.ErrReleased),
		}, nil, "elected "},
		{false, leader.RunResult{Outcome: leader.ActionFailed, Err: errAction}, nil, "action_failed "},
		{false, leader.RunResult{Outcome: leader.ActionFailed, Err: leader.ErrNoReturn}, nil, "action_failed no_return"},
		{false, leader.RunResult{Outcome: leader.ActionFailed, Err: context.Canceled}, nil, "action_failed "},
		{true, leader.RunResult{Outcome: leader.ActionFailed, Err: context.Canceled}, nil, "action_failed canceled"},
		{true, leader.RunResult{Outcome: leader.ActionFailed, Err: shutdown}, nil, "action_failed canceled"},
		{true, leader.RunResult{Outcome: leader.ActionFailed, Err: errAction}, nil, "action_failed "},
		{false, leader.RunResult{Outcome: leader.Skipped, Reason: leader.Contended}, nil, "skipped contended"},
		{false, leader.RunResult{Outcome: leader.Skipped, Reason: leader.NotPreferred}, nil, "skipped not_preferred"},
		{false, leader.RunResult{Outcome: leader.Skipped, Reason: leader.AlreadyRan}, nil, "skipped already_ran"},
		{false, leader.RunResult{Outcome: leader.Skipped, Reason: leader.BackendFailed}, nil, "skipped store_failed"},
		{false, leader.RunResult{}, failure(backend.Unknown), "not_run unknown"},
		{false, leader.RunResult{}, failure(backend.Unavailable), "not_run unavailable"},
		{false, leader.RunResult{}, failure(backend.Denied), "not_run denied"},
		{false, leader.RunResult{}, failure(backend.Misconfigured), "not_run misconfigured"},
		{true, leader.RunResult{}, fmt.Errorf("acquire: %w", context.Canceled), "not_run canceled"},
		{false, leader.RunResult{}, lost, "not_run lost"},
		{false, leader.RunResult{}, leader.ErrReentrant, "not_run reentrant"},
		{false, leader.RunResult{}, leader.ErrUnsupported, "not_run unsupported"},
		{false, leader.RunResult{}, errAction, "not_run other"},
		{false, leader.RunResult{}, nil, "not_run other"}, // somebody else's hook panicked
	}
	for _, row := range rows {
		ctx := t.Context()
		if row.over {
			ctx = over
		}
		outcome, reason := metrics.Outcome(ctx, row.result, row.err)
		if got := outcome + " " + reason; got != row.want {
			t.Errorf("%v, %v is %q, want %q", row.result, row.err, got, row.want)
		}
	}
}

func TestCause_SaysWhyALeaseEnded(t *testing.T) {
	for why, want := range map[error]string{
		leader.ErrExpired: "expired", leader.ErrTakenOver: "taken_over", leader.ErrMaxHold: "max_hold",
		leader.ErrHandBack: "hand_back", leader.ErrAbandoned: "abandoned", errAction: "other",
	} {
		if got := metrics.Cause(fmt.Errorf("%w: %w", leader.ErrLeaseLost, why)); got != want {
			t.Errorf("%v is %s, want %s", why, got, want)
		}
	}
}

func TestKind_OfAnErrorThatIsNoneOfTheStores_IsUnknown(t *testing.T) {
	if got := metrics.Kind(errAction); got != metrics.Unknown {
		t.Errorf("it is %s", got)
	}
}
