package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
)

// counting counts runs, and ends a test whose campaign spins.
func counting(runs *atomic.Int32) leader.Option {
	return leader.WithHooks(leader.Hooks{
		RunStarted: func(ctx context.Context, _ string) context.Context {
			if runs.Add(1) > 1000 {
				panic("a campaign spins")
			}
			return ctx
		},
	})
}

func TestCampaign_UnderAnotherLeaseEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing, d := newDriver(), newDriver()
		failing.onVerb(renews, fails(errDown))
		occupy(t, d.store, "inner", time.Hour)
		var runs atomic.Int32
		inner := electorOn(t, d, counting(&runs))
		var campaign error
		r, err := electorOn(t, failing).RunIfLeader(t.Context(), "outer", func(ctx context.Context) error {
			campaign = inner.Campaign(ctx, "inner", nothing)
			return campaign
		})
		if err != nil || r.Lost == nil {
			t.Errorf("got %v, %v, want a lost lease", r, err)
		}
		wantIs(t, campaign, context.Canceled, leader.ErrLeaseLost)
		if n := runs.Load(); n != 1 {
			t.Errorf("%d terms, want the one that was waited for", n)
		}
	})
}

func TestElector_RunIfLeader_TakesACauseForNoFailureOfTheStore(t *testing.T) {
	for _, mode := range []leader.FailureMode{leader.Skip, leader.FailOpenRun} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			occupy(t, d.store, "a", time.Hour)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(&leader.BackendError{Op: "acquire", Name: "b", Err: errDown}) })
			ran := false
			r, err := electorOn(t, d).RunIfLeader(ctx, "a", func(context.Context) error {
				ran = true
				return nil
			}, leader.WithWaitTime(time.Minute), leader.WithFailureMode(mode))
			wantIs(t, err, context.Canceled)
			if ran || r.Outcome != 0 {
				t.Errorf("%v: got %v, ran %t, want neither", mode, r, ran)
			}
		})
	}
}

// panics calls f and reports whether it panicked.
func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func TestHooks_ThatPanicLeaveNothingTaken(t *testing.T) {
	boom := func(context.Context, leader.LeaseInfo) { panic("hook") }
	for name, hooks := range map[string]leader.Hooks{"acquired": {Acquired: boom}, "released": {Released: boom}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				e := electorOn(t, d, leader.WithHooks(hooks))
				for range 2 { // the second is refused if the first left a claim or a lease
					if !panics(func() { _, _ = e.RunIfLeader(t.Context(), "a", nothing) }) {
						t.Fatal("not run")
					}
				}
				time.Sleep(time.Hour)
				wantFree(t, d.store, "a")
				if n := d.count(renews); n != 0 {
					t.Errorf("%d renewals of a lease that nobody has", n)
				}
			})
		})
	}
}

func TestStrategic_AScorerThatPanicsLeavesNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := false
		scorer := leader.ScorerFunc(func(leader.Candidate, []leader.Candidate, time.Time) float64 {
			if bad {
				panic("scorer")
			}
			return 1
		})
		e := strategicOn(t, able{recording{newDriver()}}, leader.Scored(scorer))
		m, err := e.Enroll(t.Context(), "a", leader.Candidate{})
		if err != nil {
			t.Fatal(err)
		}
		bad = true
		if !panics(func() { _, _ = e.RunIfLeader(t.Context(), "a", nothing) }) {
			t.Fatal("the scorer was not asked")
		}
		bad = false
		if r, err := e.RunIfLeader(t.Context(), "a", nothing); err != nil || !r.OK() {
			t.Errorf("got %v, %v, want elected", r, err)
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRunKey_AMarkThatArrivesLateOverOneThatWasTakenBackDoesNotBurnTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, recording{d})
		r, err := e.RunIfLeader(t.Context(), "a", func(context.Context) error { return errAction },
			noonKey(), leader.WithRetryFailedRun())
		if err != nil || !errors.Is(r.Err, errAction) {
			t.Fatalf("got %v, %v, want a failed run", r, err)
		}
		var written atomic.Int32
		d.on(func(q request) answer {
			switch {
			case q.verb != puts:
				return nil
			case written.Add(1) == 1: // a conflict with what was taken back
				return nil
			case written.Load() == 2: // written over it, late
				return func(_ context.Context, apply func() error) error {
					time.AfterFunc(10*time.Second, func() { _ = apply() })
					return errDown
				}
			}
			return fails(errDown)
		})
		var runs atomic.Int32
		_, err = e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
		wantIs(t, err, errDown)
		d.heal()
		time.Sleep(20 * time.Second)
		r, err = e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
		wantRan(t, r, err)
	})
}
