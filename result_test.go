package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestElector_RunIfLeader_AnErrorMeansThatTheActionDidNotRun(t *testing.T) {
	type setting struct {
		ctx    context.Context //nolint:containedctx // of one row
		cancel context.CancelFunc
		d      *driver
		opts   []leader.RunOption
	}
	rows := []struct {
		name  string
		setUp func(t *testing.T, s *setting)
		want  error
	}{
		{"a refused option", func(_ *testing.T, s *setting) {
			s.opts = []leader.RunOption{leader.WithLeaseTime(-1)}
		}, leader.ErrInvalidOption},
		{"ctx done before", func(_ *testing.T, s *setting) { s.cancel() }, context.Canceled},
		{"ctx done while waiting", func(t *testing.T, s *setting) {
			occupy(t, s.d.store, "a", time.Hour)
			s.opts = []leader.RunOption{leader.WithWaitTime(time.Hour)}
			time.AfterFunc(time.Minute, s.cancel)
		}, context.Canceled},
		{"ctx done with the answer", func(_ *testing.T, s *setting) {
			s.d.onVerb(acquires, func(_ context.Context, apply func() error) error {
				defer s.cancel()
				return apply()
			})
		}, context.Canceled},
		{"unavailable", func(_ *testing.T, s *setting) { s.d.onVerb(acquires, fails(errDown)) }, leader.ErrUnavailable},
		{"unavailable while waiting", func(_ *testing.T, s *setting) {
			s.d.onVerb(acquires, fails(errDown))
			s.opts = []leader.RunOption{leader.WithWaitTime(time.Minute)}
		}, leader.ErrUnavailable},
		{"denied", func(_ *testing.T, s *setting) { s.d.onVerb(acquires, fails(errDenied)) }, leader.ErrDenied},
		{"misconfigured", func(_ *testing.T, s *setting) { s.d.onVerb(acquires, fails(errForeign)) }, leader.ErrMisconfigured},
		{"an unknown failure", func(_ *testing.T, s *setting) { s.d.onVerb(acquires, fails(errStrange)) }, errStrange},
		{"a lost answer", func(_ *testing.T, s *setting) { s.d.onVerb(acquires, losesAnswer(errStrange)) }, errStrange},
		{"no answer", func(_ *testing.T, s *setting) { s.d.onVerb(acquires, hangs) }, leader.ErrUnavailable},
		{"no answer for ever", func(t *testing.T, s *setting) {
			freed := make(chan struct{})
			t.Cleanup(func() { close(freed) })
			s.d.limits.Blocking = true
			s.d.onVerb(acquires, stuck(freed))
		}, leader.ErrUnavailable},
		{"an answer too late", func(_ *testing.T, s *setting) {
			s.d.onVerb(acquires, answersAfter(deadline))
		}, leader.ErrUnavailable},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := setting{d: newDriver()}
				s.ctx, s.cancel = context.WithCancel(t.Context())
				defer s.cancel()
				row.setUp(t, &s)
				ran := false
				r, err := electorOn(t, s.d).RunIfLeader(s.ctx, "a", func(context.Context) error {
					ran = true
					return nil
				}, s.opts...)
				wantIs(t, err, row.want)
				if ran {
					t.Error("the action ran")
				}
				if r.Outcome != 0 || r.OK() || r.Err != nil {
					t.Errorf("result %+v, want none", r)
				}
			})
		})
	}
}

func TestElector_RunIfLeader_TheHookOutlastsTheLeaseSoTheActionDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(errDown))
		hooks := leader.Hooks{Acquired: func(context.Context, leader.LeaseInfo) { time.Sleep(lease) }}
		ran := false
		_, err := electorOn(t, d, leader.WithHooks(hooks)).RunIfLeader(t.Context(), "a", func(context.Context) error {
			ran = true
			return nil
		})
		wantIs(t, err, leader.ErrLeaseLost, leader.ErrExpired)
		if ran {
			t.Error("the action ran")
		}
	})
}

func TestElector_RunIfLeader_ReportsAnElectedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, arrivesAfter(time.Second))
		e := electorOn(t, d, leader.WithNodeID("node-1"), leader.WithNamespace("ns"))
		acquired := time.Now()
		var fence uint64
		r, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			l, ok := leader.LeaseFrom(ctx)
			if !ok {
				t.Error("the action's context carries no lease")
			}
			fence = l.Info().Fence
			time.Sleep(3 * time.Second)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := leader.RunResult{
			Outcome: leader.Elected, Attempts: 1, Waited: time.Second,
			Lease: leader.LeaseInfo{
				Name: "a", Node: "node-1", Key: "ns/a", Fence: fence, Acquired: acquired, Lasts: time.Minute,
				Held: 4 * time.Second,
			},
		}
		if fence == 0 || !r.OK() || r.String() != want.String() || r.Lease != want.Lease ||
			r.Attempts != want.Attempts || r.Waited != want.Waited || r.Reason != 0 || r.Lost != nil || r.Unguarded {
			t.Errorf("got %#v, want %#v", r, want)
		}
	})
}

func TestElector_RunIfLeader_ReportsTheHolderOfASkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		other := occupy(t, d.store, "a", time.Hour)
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != leader.Skipped || r.Reason != leader.Contended || r.OK() || r.Attempts != 1 {
			t.Errorf("got %+v, want a skip after one attempt", r)
		}
		if r.Holder.Name != "a" || r.Holder.Node != "somebody else" || r.Holder.Fence != other.Fence() || r.Holder.Remaining != time.Hour {
			t.Errorf("holder %+v, want somebody else with fence %d", r.Holder, other.Fence())
		}
		if r.Lease != (leader.LeaseInfo{}) {
			t.Errorf("lease %+v, want none", r.Lease)
		}
	})
}

func TestElector_RunIfLeader_ReportsAFailedAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := electorOn(t, newDriver()).RunIfLeader(t.Context(), "a", func(context.Context) error { return errAction })
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != leader.ActionFailed || !errors.Is(r.Err, errAction) || r.Lost != nil || r.OK() {
			t.Errorf("got %+v, want a failed action", r)
		}
	})
}

func TestElector_RunIfLeader_ReportsALostLeaseBesideTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(backend.ErrLost))
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(lease))
		if err != nil {
			t.Fatal(err)
		}
		wantIs(t, r.Lost, leader.ErrLeaseLost, leader.ErrTakenOver)
		if r.Outcome != leader.Elected || r.Err != nil || r.OK() {
			t.Errorf("got %+v, want an elected run that is not OK", r)
		}
	})
}

func TestElector_RunIfLeader_ReportsTheAttemptsAndTheTimeOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(2, acquires, fails(errDown))
		began := time.Now()
		var ready time.Duration
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", func(context.Context) error {
			ready = time.Since(began)
			time.Sleep(time.Second)
			return nil
		}, leader.WithWaitTime(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if r.Attempts != 3 || r.Waited != ready || ready == 0 {
			t.Errorf("got %d attempts in %v, want 3 in %v", r.Attempts, r.Waited, ready)
		}
	})
}

func TestRunIfLeader_ReturnsTheValueOfTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		give := func(err error, d time.Duration) func(context.Context) (int, error) {
			return func(context.Context) (int, error) {
				time.Sleep(d)
				return 7, err
			}
		}
		rows := []struct {
			name      string
			renewal   error
			occupied  bool
			action    func(context.Context) (int, error)
			wantValue int
			want      error
		}{
			{name: "success", action: give(nil, time.Second), wantValue: 7},
			{name: "failure", action: give(errAction, time.Second), wantValue: 7, want: errAction},
			{name: "loss", renewal: backend.ErrLost, action: give(nil, lease), wantValue: 7, want: leader.ErrLeaseLost},
			{name: "skip", occupied: true, action: give(nil, time.Second), want: leader.ErrNotElected},
		}
		for _, row := range rows {
			d := newDriver()
			d.onVerb(renews, fails(row.renewal))
			if row.occupied {
				occupy(t, d.store, "a", time.Hour)
			}
			r, err := leader.RunIfLeader(t.Context(), electorOn(t, d), "a", row.action)
			if err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			v, err := r.Value()
			if v != row.wantValue || !errors.Is(err, row.want) {
				t.Errorf("%s: value %d, %v, want %d, %v", row.name, v, err, row.wantValue, row.want)
			}
		}
	})
}

func TestResult_Value_IsNotElectedWhereTheCallFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, fails(errDown))
		r, err := leader.RunIfLeader(t.Context(), electorOn(t, d), "a", func(context.Context) (string, error) { return "x", nil })
		wantIs(t, err, leader.ErrUnavailable)
		v, err := r.Value()
		wantIs(t, err, leader.ErrNotElected)
		if v != "" {
			t.Errorf("value %q, want none", v)
		}
	})
}

func TestRunResult_String_IsForPeople(t *testing.T) {
	held := leader.LeaseInfo{Fence: 5}
	rows := []struct {
		r    leader.RunResult
		want string
	}{
		{leader.RunResult{}, "None"},
		{leader.RunResult{Outcome: leader.Elected, Lease: held}, "Elected (fence 5)"},
		{leader.RunResult{Outcome: leader.Elected, Lease: held, Lost: leader.ErrLeaseLost}, "Elected (fence 5), but lease lost"},
		{leader.RunResult{Outcome: leader.ActionFailed, Lease: held, Err: errAction}, "ActionFailed (fence 5): the action failed"},
		{leader.RunResult{Outcome: leader.Elected, Unguarded: true}, "Elected unguarded"},
		{leader.RunResult{Outcome: leader.ActionFailed, Unguarded: true, Err: errAction}, "ActionFailed unguarded: the action failed"},
		{leader.RunResult{Outcome: leader.Skipped, Reason: leader.BackendFailed}, "Skipped (BackendFailed)"},
		{
			leader.RunResult{Outcome: leader.Skipped, Reason: leader.Contended, Holder: leader.State{Node: "n"}},
			"Skipped (Contended, held by n)",
		},
	}
	for _, row := range rows {
		if got := row.r.String(); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

func TestRunResult_LogValue_GroupsWhatMatters(t *testing.T) {
	rows := []struct {
		r    leader.RunResult
		want string
	}{
		{leader.RunResult{Outcome: leader.Elected, Lease: leader.LeaseInfo{Fence: 5, Held: time.Second}}, "[outcome=Elected leader.fence=5 held=1s]"},
		{
			leader.RunResult{Outcome: leader.Skipped, Reason: leader.Contended, Holder: leader.State{Node: "n"}},
			"[outcome=Skipped reason=Contended holder=n]",
		},
		{
			leader.RunResult{Outcome: leader.ActionFailed, Unguarded: true, Err: errAction, Lost: leader.ErrExpired},
			"[outcome=ActionFailed unguarded=true lost=not renewed in time err=the action failed]",
		},
	}
	for _, row := range rows {
		if got := slog.AnyValue(row.r).Resolve().String(); got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
	}
}

func TestEnums_String_NamesEachValue(t *testing.T) {
	rows := map[string]string{
		leader.Outcome(0).String():     "None",
		leader.Elected.String():        "Elected",
		leader.Skipped.String():        "Skipped",
		leader.ActionFailed.String():   "ActionFailed",
		leader.SkipReason(0).String():  "None",
		leader.Contended.String():      "Contended",
		leader.BackendFailed.String():  "BackendFailed",
		leader.Rethrow.String():        "Rethrow",
		leader.Skip.String():           "Skip",
		leader.FailOpenRun.String():    "FailOpenRun",
		leader.FailureMode(9).String(): "FailureMode(?)",
		backend.Unavailable.String():   "unavailable",
		backend.Unknown.String():       "unknown",
	}
	for got, want := range rows {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
