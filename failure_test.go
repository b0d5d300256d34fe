package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
)

func TestMaxHold_EndsTheContextAtThatAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, r := endOf(t, electorOn(t, newDriver()), leader.WithMaxHold(5*time.Minute))
		if end != 5*time.Minute {
			t.Errorf("the context ended after %v, want 5m", end)
		}
		wantIs(t, r.Err, leader.ErrLeaseLost, leader.ErrMaxHold)
		wantIs(t, r.Lost, leader.ErrLeaseLost, leader.ErrMaxHold)
		if errors.Is(r.Lost, leader.ErrExpired) {
			t.Errorf("%v, want no expiry", r.Lost)
		}
	})
}

func TestMaxHold_EndsAnAcquiredLeaseThatNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		l := acquired(t, electorOn(t, newDriver(), leader.WithHooks(recordingHooks(&j))), leader.WithMaxHold(5*time.Minute))
		time.Sleep(5 * time.Minute)
		wantIs(t, l.Err(), leader.ErrMaxHold)
		synctest.Wait()
		if got := j.String(); got != "acquired, lost" {
			t.Errorf("hooks: %s", got)
		}
	})
}

func TestMaxHold_TheDrainEndsAtTheTrustDeadlineWhereRenewingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(errDown))
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(2*lease), leader.WithMaxHold(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		log := d.log(renews)
		if last := log[len(log)-1].at; last > deadline {
			t.Errorf("renewed at %v, after the trust deadline", last)
		}
	})
}

func TestFailureMode_DecidesWhatBecomesOfAStoreThatFails(t *testing.T) {
	rows := []struct {
		mode      leader.FailureMode
		failure   error
		want      error
		outcome   leader.Outcome
		unguarded bool
	}{
		{leader.Rethrow, errDown, errDown, 0, false},
		{leader.Rethrow, errStrange, errStrange, 0, false},
		{leader.Skip, errDown, nil, leader.Skipped, false},
		{leader.Skip, errStrange, nil, leader.Skipped, false},
		{leader.Skip, errDenied, leader.ErrDenied, 0, false},
		{leader.Skip, errForeign, leader.ErrMisconfigured, 0, false},
		{leader.FailOpenRun, errDown, nil, leader.Elected, true},
		{leader.FailOpenRun, errStrange, nil, leader.Elected, true},
		{leader.FailOpenRun, errDenied, leader.ErrDenied, 0, false},
		{leader.FailOpenRun, errForeign, leader.ErrMisconfigured, 0, false},
	}
	for _, row := range rows {
		t.Run(row.mode.String()+" "+row.failure.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.onVerb(acquires, fails(row.failure))
				ran := false
				r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
					if l, ok := leader.LeaseFrom(ctx); ok || l != nil {
						t.Error("an unguarded action has a lease")
					}
					ran = true
					return nil
				}, leader.WithFailureMode(row.mode))
				if !errors.Is(err, row.want) || r.Outcome != row.outcome || r.Unguarded != row.unguarded || ran != row.unguarded {
					t.Errorf("got %v, %v, ran %v", r, err, ran)
				}
				if r.OK() || (r.Reason == leader.BackendFailed) != (row.outcome == leader.Skipped) {
					t.Errorf("got %+v", r)
				}
			})
		})
	}
}

func TestFailureMode_AnUnguardedActionMayFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, fails(errDown))
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", func(context.Context) error { return errAction },
			leader.WithFailureMode(leader.FailOpenRun))
		if err != nil || r.Outcome != leader.ActionFailed || !errors.Is(r.Err, errAction) || !r.Unguarded {
			t.Errorf("got %+v, %v, want a failed unguarded action", r, err)
		}
	})
}

func TestFailureMode_DoesNotChangeWhatIsNoFailureOfTheStore(t *testing.T) {
	for _, mode := range []leader.FailureMode{leader.Skip, leader.FailOpenRun} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			occupy(t, d.store, "a", time.Hour)
			e := electorOn(t, d, leader.WithFailureMode(mode))
			r, err := e.RunIfLeader(t.Context(), "a", nothing)
			if err != nil || r.Reason != leader.Contended {
				t.Errorf("got %v, %v, want a skip for contention", r, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = e.RunIfLeader(ctx, "a", nothing, leader.WithWaitTime(time.Hour))
			wantIs(t, err, context.DeadlineExceeded)
		})
	}
}

func TestFailureMode_IsOnlyForRunIfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, fails(errDown))
		_, err := electorOn(t, d, leader.WithFailureMode(leader.FailOpenRun)).Acquire(t.Context(), "a")
		wantIs(t, err, leader.ErrUnavailable)
	})
}
