package metrics_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics"
)

var noLog = slog.New(slog.DiscardHandler)

// works is an action that takes d and does not care for its context.
func works(d time.Duration) leader.Action {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestObserver_TellsOfARunWhateverBecomesOfIt(t *testing.T) {
	rows := map[string]struct {
		script func(s *store)
		action leader.Action
		opts   []leader.RunOption
		want   string
	}{
		"a quick run": {
			nil, nothing, nil, "a started, a acquired, a ended, a released, a finished elected",
		},
		"a failing action": {
			nil, func(context.Context) error { return errAction }, nil,
			"a started, a acquired, a ended, a released, a finished action_failed",
		},
		"a long run": {
			nil, works(time.Minute), nil,
			"a started, a acquired, a renewed, a ended, a released, a finished elected",
		},
		"a lease that cannot be renewed": {
			func(s *store) { s.renew = errDown }, untilDone, nil,
			"a started, a acquired, a renewal failed unavailable, a ended, a lost expired, a finished action_failed lost, a released",
		},
		"a lease that another took": {
			func(s *store) { s.renew = backend.ErrLost }, untilDone, nil,
			"a started, a acquired, a ended, a lost taken_over, a finished action_failed lost",
		},
		"a lease that is held for long": {
			nil, untilDone,
			[]leader.RunOption{leader.WithMaxHold(time.Second)},
			"a started, a acquired, a ended, a lost max_hold, a released, a finished action_failed lost",
		},
		"a release that fails": {
			func(s *store) { s.release = errDenied }, nothing, nil,
			"a started, a acquired, a ended, a release failed denied, a finished elected",
		},
		"a store that is down": {
			func(s *store) { s.acquire = errDown }, nothing, nil, "a started, a attempt failed unavailable, a finished not_run unavailable",
		},
		"a store that is down, skipped": {
			func(s *store) { s.acquire = errDown }, nothing,
			[]leader.RunOption{leader.WithFailureMode(leader.Skip)},
			"a started, a attempt failed unavailable, a finished skipped store_failed",
		},
		"a store that is down, run anyway": {
			func(s *store) { s.acquire = errDown }, nothing,
			[]leader.RunOption{leader.WithFailureMode(leader.FailOpenRun)},
			"a started, a attempt failed unavailable, a finished elected unguarded",
		},
		"a lease that another holds": {
			func(s *store) { s.acquire = backend.ErrHeld }, nothing, nil, "a started, a finished skipped contended",
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, told := newStore(), &log{}
				if row.script != nil {
					row.script(s)
				}
				e := elector(t, s, metrics.NewObserver(told, nil).Hooks(), leader.WithLeaseTime(20*time.Second))
				_, _ = e.RunIfLeader(t.Context(), "a", row.action, row.opts...) // what it returns is what is told
				time.Sleep(time.Minute)                                         // what comes later has come
				// The end of a lost lease and that of its run are told side by side.
				if got := told.text(); !slices.Equal(sorted(got), sorted(row.want)) {
					t.Errorf("told\n%s\nwant\n%s", got, row.want)
				}
			})
		})
	}
}

func sorted(list string) []string { return slices.Sorted(slices.Values(strings.Split(list, ", "))) }

// hanging is a store whose client does not return when its context ends.
type hanging struct {
	*store

	thaw chan struct{}
}

func (h hanging) Limits() backend.Limits { return backend.Limits{Blocking: true} }

func (h hanging) TryAcquire(context.Context, backend.Request) (backend.Lease, error) {
	<-h.thaw
	return nil, errDown
}

func TestObserver_TellsOfACallThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &log{}
		h := hanging{newStore(), make(chan struct{})}
		e := elector(t, h, metrics.NewObserver(told, nil).Hooks(), leader.WithLeaseTime(20*time.Second))
		_, err := e.RunIfLeader(t.Context(), "a", nothing)
		want := "a started, a attempt failed unavailable, a abandoned acquire, a finished not_run unavailable"
		if got := told.text(); got != want {
			t.Errorf("told %s, want %s (%v)", got, want, err)
		}
		close(h.thaw)
	})
}

// A campaign says nothing else for as long as it waits for its store.
func TestObserver_TellsOfEachAttemptOfACampaignAtWhichTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := newStore(), &log{}
		s.acquire = errDown
		e := elector(t, s, metrics.NewObserver(told, nil).Hooks(), leader.WithLeaseTime(20*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = e.Campaign(ctx, "a", untilDone) // it ends with ctx
		told.mu.Lock()
		defer told.mu.Unlock()
		failed := len(told.lines) - 2
		if failed < 5 || told.lines[failed] != "a attempt failed unavailable" {
			t.Errorf("told %q, want a failed attempt every few seconds", told.lines)
		}
	})
}

func TestObserver_EndsTheLeaseOfAnActionThatDoesNotReturn(t *testing.T) {
	for name, action := range map[string]leader.Action{
		"panics": func(context.Context) error { panic("no") },
		"goes":   func(context.Context) error { runtime.Goexit(); return nil },
	} {
		told, done := &log{}, make(chan struct{})
		e := elector(t, local.New(), metrics.NewObserver(told, nil).Hooks())
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_, _ = e.RunIfLeader(t.Context(), "a", action)
		}()
		<-done
		want := "a started, a acquired, a ended, a released, a finished action_failed no_return"
		if got := told.text(); got != want {
			t.Errorf("%s: told %s, want %s", name, got, want)
		}
	}
}

func TestObserver_TellsOfALeaseAcquiredByHand(t *testing.T) {
	told := &log{}
	e := elector(t, local.New(), metrics.NewObserver(told, nil).Hooks())
	l, err := e.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := told.text(), "a acquired, a ended, a released"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestObserver_TellsOfARunKeyAlreadyUsed(t *testing.T) {
	told := &log{}
	e := elector(t, local.New(), metrics.NewObserver(told, nil).Hooks())
	for range 2 {
		if _, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithRunKey("today", time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	want := "a started, a acquired, a ended, a released, a finished elected, " +
		"a started, a acquired, a ended, a released, a finished skipped already_ran"
	if got := told.text(); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestObserver_EndsEachOfTwoLeasesThatLookAlike(t *testing.T) {
	told := &log{}
	hooks := metrics.NewObserver(told, nil).Hooks()
	var leases []*leader.Lease
	for range 2 { // two stores, on which the first fences are the same
		e := elector(t, local.New(), hooks, leader.WithNodeID("node"))
		l, err := e.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	for _, l := range leases {
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := told.text(), "a acquired, a ended, a released, a ended, a released"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestObserver_BoundsNames(t *testing.T) {
	told := &log{}
	e := elector(t, local.New(), metrics.NewObserver(told, metrics.FirstNames(1)).Hooks())
	for _, name := range []string{"a", "b", "c"} {
		if l, err := e.Acquire(t.Context(), name); err != nil {
			t.Fatal(err)
		} else if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := "a acquired, a ended, a released, other acquired, other ended, other released, " +
		"other acquired, other ended, other released"
	if got := told.text(); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}
