package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// keep is for how long run keys are kept in most tests.
const keep = time.Hour

// noonKey marks runs of most tests.
func noonKey() leader.RunOption { return leader.WithRunKey("noon", keep) }

// marked is the set of records of the run key of most tests.
const marked = "a!run.noon/"

// wantMarked asserts how many marks there are of the run key of most tests, those apart that were taken back.
func wantMarked(t *testing.T, store *local.Backend, want int) {
	t.Helper()
	marks := slices.DeleteFunc(recordsOf(t, store, marked), func(r backend.Record) bool { return len(r.Value) == 0 })
	if len(marks) != want {
		t.Errorf("%d marks, want %d", len(marks), want)
	}
}

// counted is an action that counts its runs.
func counted(runs *atomic.Int32) leader.Action {
	return func(context.Context) error {
		runs.Add(1)
		return nil
	}
}

// wantRan asserts that a run was the one of its key.
func wantRan(t *testing.T, r leader.RunResult, err error) {
	t.Helper()
	if err != nil || !r.OK() {
		t.Errorf("got %v, %v, want a run", r, err)
	}
}

// wantAlreadyRan asserts that a run was skipped because of its key.
func wantAlreadyRan(t *testing.T, r leader.RunResult, err error) {
	t.Helper()
	if err != nil || r.Outcome != leader.Skipped || r.Reason != leader.AlreadyRan || r.Lease != (leader.LeaseInfo{}) ||
		r.Err != nil || r.Lost != nil || r.Holder.Node != "" {
		t.Errorf("got %+v, %v, want it skipped because it ran already", r, err)
	}
}

func TestRunKey_RunsOnceOnAllElectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		var runs, skips atomic.Int32
		var wg sync.WaitGroup
		for i := range 10 {
			e := electorOn(t, recording{driverOf(store)})
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 400 * time.Millisecond) // clocks that differ
				r, err := e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey(), leader.WithWaitTime(time.Second))
				if err != nil {
					t.Error(err)
				}
				if r.Reason == leader.AlreadyRan {
					skips.Add(1)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 || skips.Load() != 9 {
			t.Errorf("%d runs and %d skips, want 1 and 9", runs.Load(), skips.Load())
		}
		wantFree(t, store, "a")
	})
}

func TestRunKey_OthersRunOnTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, recording{d})
		space := electorOn(t, recording{d}, leader.WithNamespace("a"))
		for _, key := range []string{"noon", "noon/run", "noon#0", "noo", "Noon", "noon ", "noon!x/", "noon%s"} {
			for _, name := range []string{"a", "a:noon", "a#0", "a!run.noon"} {
				for _, e := range []*leader.Single{e, space} {
					r, err := e.RunIfLeader(t.Context(), name, nothing, leader.WithRunKey(key, keep))
					wantRan(t, r, err)
					r, err = e.RunIfLeader(t.Context(), name, nothing, leader.WithRunKey(key, keep))
					wantAlreadyRan(t, r, err)
				}
			}
		}
	})
}

func TestRunKey_IsKeptForThatLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electorOn(t, recording{newDriver()})
		r, err := e.RunIfLeader(t.Context(), "a", works(time.Minute), noonKey())
		wantRan(t, r, err)
		time.Sleep(keep - time.Minute - time.Nanosecond)
		r, err = e.RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantAlreadyRan(t, r, err)
		time.Sleep(time.Nanosecond)
		r, err = e.RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantRan(t, r, err)
	})
}

func TestRunKey_MarksAfterTheAcquisitionAndBeforeTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		r, err := electorOn(t, recording{d}).RunIfLeader(t.Context(), "a", func(context.Context) error {
			wantMarked(t, d.store, 1)
			return nil
		}, noonKey())
		wantRan(t, r, err)
		var verbs []string
		for _, r := range d.log() {
			verbs = append(verbs, string(r.verb))
		}
		if got := strings.Join(verbs, ", "); got != "acquire, put, release" {
			t.Errorf("requests: %s", got)
		}
		if p := d.log(puts)[0]; p.d != keep {
			t.Errorf("kept for %v, want %v", p.d, keep)
		}
	})
}

func TestRunKey_ASkipReleasesTheLeaseAtOnceAlsoWithAMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		var j journal
		var finished []leader.RunResult
		hooks := recordingHooks(&j)
		hooks.RunStarted = func(ctx context.Context, _ string) context.Context { j.add("started"); return ctx }
		hooks.RunFinished = func(_ context.Context, _ string, r leader.RunResult, err error) {
			j.add("finished")
			finished = append(finished, r)
			if err != nil {
				t.Error(err)
			}
		}
		e := electorOn(t, recording{d}, leader.WithHooks(hooks))
		r, err := e.RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantRan(t, r, err)
		r, err = e.RunIfLeader(t.Context(), "a", nothing, noonKey(), leader.WithMinLease(minimum))
		wantAlreadyRan(t, r, err)
		if r.Attempts != 1 || len(finished) != 2 || finished[1].Reason != r.Reason || finished[1].Attempts != 1 {
			t.Errorf("got %+v, and hooks %+v", r, finished)
		}
		wantFree(t, d.store, "a")
		if log := d.log(releases); len(log) != 2 || log[1].d != 0 {
			t.Errorf("releases %v, want two, the second without a rest", log)
		}
		want := "started, acquired, released, finished, started, acquired, released, finished"
		if got := j.String(); got != want {
			t.Errorf("hooks: %s", got)
		}
	})
}

func TestRunKey_AMinLeaseKeepsTheNameAfterARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		r, err := electorOn(t, recording{d}).RunIfLeader(t.Context(), "a", nothing, noonKey(), leader.WithMinLease(minimum))
		wantRan(t, r, err)
		if h := holderOf(t, d.store, "a"); !h.Kept || h.Remaining != minimum {
			t.Errorf("got %+v, want it kept for %v", h, minimum)
		}
	})
}

func TestRunKey_ALostAnswerOfTheMarkIsRecognised(t *testing.T) {
	for lost := 1; lost <= 2; lost++ {
		t.Run(strconv.Itoa(lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.first(lost, puts, losesAnswer(errDown))
				var runs atomic.Int32
				e := electorOn(t, recording{d})
				r, err := e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
				wantRan(t, r, err)
				r, err = e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
				wantAlreadyRan(t, r, err)
				if n := runs.Load(); n != 1 {
					t.Errorf("%d runs, want 1", n)
				}
			})
		})
	}
}

func TestRunKey_ALostAnswerOfAPunctualDriverIsRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.limits.Blocking, d.limits.Punctual = true, true
		d.first(1, puts, func(ctx context.Context, apply func() error) error {
			_ = apply()
			<-ctx.Done()
			return ctx.Err()
		})
		r, err := electorOn(t, recording{d}).RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantRan(t, r, err)
		wantMarked(t, d.store, 1)
	})
}

func TestRunKey_AStoreThatFailsWhileMarkingRunsNothingAndFreesTheMark(t *testing.T) {
	failures := map[string]answer{
		"fails": fails(errDown),
		"loses": losesAnswer(errDown),
		"hangs": hangs,
		"arrives": func(_ context.Context, apply func() error) error {
			time.AfterFunc(time.Millisecond, func() { _ = apply() })
			return errDown
		},
		"is denied":   fails(errDenied),
		"is strange":  losesAnswer(errStrange),
		"is too late": answersAfter(2 * lease),
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.on(func(r request) answer {
					switch r.verb {
					case puts:
						return failure
					case renews:
						return fails(errDown)
					default:
						return nil
					}
				})
				var runs atomic.Int32
				e := electorOn(t, recording{d})
				r, err := e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
				if err == nil || r.Outcome != 0 {
					t.Errorf("got %v, %v, want an error", r, err)
				}
				time.Sleep(lease)
				wantMarked(t, d.store, 0)
				wantFree(t, d.store, "a")
				d.heal()
				r, err = e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
				wantRan(t, r, err)
				if n := runs.Load(); n != 1 {
					t.Errorf("%d runs, want that after the store has healed", n)
				}
			})
		})
	}
}

func TestRunKey_FailureModesApplyToAStoreThatFailsWhileMarking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(puts, fails(errDown))
		var runs atomic.Int32
		e := electorOn(t, recording{d})
		r, err := e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey(), leader.WithFailureMode(leader.Skip))
		if err != nil || r.Reason != leader.BackendFailed {
			t.Errorf("got %v, %v, want a skip", r, err)
		}
		_, err = e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
		failure, ok := errors.AsType[*leader.BackendError](err)
		if !ok || failure.Op != "record" || failure.Name != "a" || runs.Load() != 0 {
			t.Errorf("got %v after %d runs", err, runs.Load())
		}
		wantIs(t, err, leader.ErrUnavailable, errDown)
	})
}

func TestRunKey_ALeaseThatIsOverWhileMarkingStartsNothingAndFreesTheMark(t *testing.T) {
	rows := map[string]struct {
		opts []leader.RunOption
		why  error
	}{
		"expired": {[]leader.RunOption{leader.WithoutAutoExtend()}, leader.ErrExpired},
		"max":     {[]leader.RunOption{leader.WithMaxHold(10 * time.Second)}, leader.ErrMaxHold},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.first(1, puts, answersAfter(lease-time.Second))
				var runs atomic.Int32
				e := electorOn(t, recording{d})
				r, err := e.RunIfLeader(t.Context(), "a", counted(&runs), append(row.opts, noonKey())...)
				wantIs(t, err, leader.ErrLeaseLost, row.why)
				if r.Outcome != 0 || runs.Load() != 0 {
					t.Errorf("got %v after %d runs, want none", r, runs.Load())
				}
				synctest.Wait()
				wantMarked(t, d.store, 0)
				time.Sleep(lease)
				r, err = e.RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
				wantRan(t, r, err)
			})
		})
	}
}

func TestRunKey_ACallerThatGaveUpWhileMarkingRunsNothingAndFreesTheMark(t *testing.T) {
	for name, after := range map[string]answer{
		"before the answer": hangs,
		"with the answer":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				ctx, cancel := context.WithCancel(t.Context())
				d.first(1, puts, func(asked context.Context, apply func() error) error {
					err := apply()
					cancel()
					if after != nil {
						return after(asked, apply)
					}
					return err
				})
				var runs atomic.Int32
				r, err := electorOn(t, recording{d}).RunIfLeader(ctx, "a", counted(&runs), noonKey())
				wantIs(t, err, context.Canceled)
				if r.Outcome != 0 || runs.Load() != 0 {
					t.Errorf("got %v after %d runs, want none", r, runs.Load())
				}
				synctest.Wait()
				wantMarked(t, d.store, 0)
				wantFree(t, d.store, "a")
			})
		})
	}
}

func TestRunKey_AMarkThatCannotBeReadIsSomebodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		_, err := d.store.PutRecord(t.Context(), backend.Record{Key: marked + "run", Value: []byte{0, 1}, TTL: keep})
		if err != nil {
			t.Fatal(err)
		}
		r, err := electorOn(t, recording{d}).RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantAlreadyRan(t, r, err)
		d.onVerb(lists, fails(errDown))
		_, err = electorOn(t, recording{d}).RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantIs(t, err, errDown)
		d.heal()
		time.Sleep(lease)
		wantMarked(t, d.store, 1)
	})
}

func TestRunKey_ARunThatDiesInTheMiddleStaysMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		dead := driverOf(store)
		killed := make(chan struct{})
		go func() {
			_, _ = electorOn(t, recording{dead}).RunIfLeader(t.Context(), "a", func(context.Context) error {
				dead.partition()
				close(killed)
				return errAction
			}, noonKey(), leader.WithRetryFailedRun())
		}()
		<-killed
		r, err := electorOn(t, recording{driverOf(store)}).
			RunIfLeader(t.Context(), "a", nothing, noonKey(), leader.WithWaitTime(2*lease))
		wantAlreadyRan(t, r, err)
		wantAt(t, "skipped", r.Waited, lease, 2*time.Second)
		time.Sleep(2 * lease) // the dead one's attempts to clean up
		wantMarked(t, store, 1)
	})
}

func TestRunKey_OfAGroupIsUsedByOneOfItsLeaders(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		var runs atomic.Int32
		var wg sync.WaitGroup
		for range 6 {
			g := groupOn(t, struct {
				backend.Driver
				backend.Records
			}{as(driverOf(store)), recording{driverOf(store)}}, 3)
			wg.Go(func() {
				_, err := g.RunIfLeader(t.Context(), "a", func(context.Context) error {
					runs.Add(1)
					time.Sleep(time.Second)
					return nil
				}, noonKey(), leader.WithWaitTime(time.Minute))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
	})
}

func TestRunKey_EveryTickRunsOnceAlsoFromClocksThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		var mu sync.Mutex
		runs := make(map[string]int)
		var wg sync.WaitGroup
		for i := range 3 {
			e := electorOn(t, recording{driverOf(store)})
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 2 * time.Second)
				for tick := range 300 {
					key := fmt.Sprint("tick ", tick)
					_, err := e.RunIfLeader(t.Context(), "a", func(context.Context) error {
						mu.Lock()
						runs[key]++
						mu.Unlock()
						time.Sleep(20 * time.Millisecond)
						return nil
					}, leader.WithRunKey(key, time.Hour), leader.WithWaitTime(time.Second))
					if err != nil {
						t.Error(err)
					}
					time.Sleep(2 * time.Second)
				}
			})
		}
		wg.Wait()
		for key, n := range runs {
			if n != 1 {
				t.Errorf("%s ran %d times", key, n)
			}
		}
		if len(runs) != 300 {
			t.Errorf("%d ticks ran, want 300", len(runs))
		}
	})
}

func TestRunKey_RefusesWhatBreaksItsRules(t *testing.T) {
	d := newDriver()
	e := electorOn(t, recording{d})
	open := electorOn(t, recording{d}, leader.WithFailureMode(leader.FailOpenRun))
	run := func(e *leader.Single, opts ...leader.RunOption) func() error {
		return func() error {
			_, err := e.RunIfLeader(t.Context(), "a", nothing, opts...)
			return err
		}
	}
	rows := map[string]struct {
		call  func() error
		names []string
	}{
		"empty":             {run(e, leader.WithRunKey("", keep)), []string{"WithRunKey", "empty"}},
		"over-long":         {run(e, leader.WithRunKey(strings.Repeat("k", 256), keep)), []string{"WithRunKey", "256 bytes"}},
		"control character": {run(e, leader.WithRunKey("a\nb", keep)), []string{"WithRunKey", "control character"}},
		"not UTF-8":         {run(e, leader.WithRunKey("\xff", keep)), []string{"WithRunKey", "UTF-8"}},
		"kept for nothing":  {run(e, leader.WithRunKey("k", 0)), []string{"WithRunKey(0s)", "must be positive"}},
		"kept for less":     {run(e, leader.WithRunKey("k", -1)), []string{"WithRunKey(-1ns)", "must be positive"}},
		"without a lease":   {run(e, noonKey(), leader.WithFailureMode(leader.FailOpenRun)), []string{"WithFailureMode(FailOpenRun)", "run key"}},
		"by default":        {run(open, noonKey()), []string{"WithFailureMode(FailOpenRun)", "run key"}},
		"Acquire": {
			func() error { _, err := e.Acquire(t.Context(), "a", noonKey()); return err },
			[]string{"WithRunKey", "RunIfLeader alone"},
		},
		"Campaign": {
			func() error { return e.Campaign(t.Context(), "a", nothing, noonKey()) },
			[]string{"WithRunKey", "RunIfLeader alone"},
		},
		"constructor": {
			func() error { _, err := leader.New(recording{d}, noonKey()); return err },
			[]string{`WithRunKey("noon")`, "belongs to one call"},
		},
		"group's constructor": {
			func() error { _, err := leader.NewGroup(recording{d}, 2, noonKey()); return err },
			[]string{`WithRunKey("noon")`, "belongs to one call"},
		},
		"retry in Campaign": {
			func() error { return e.Campaign(t.Context(), "a", nothing, leader.WithRetryFailedRun()) },
			[]string{"WithRetryFailedRun"},
		},
		"retry without a key": {run(e, leader.WithRetryFailedRun()), []string{"WithRetryFailedRun"}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			err := row.call()
			wantIs(t, err, leader.ErrInvalidOption)
			wantNames(t, err, row.names...)
		})
	}
	if n := d.count(puts, clears, lists, deletes); n != 0 {
		t.Errorf("%d requests about records of refused calls", n)
	}
	r, err := open.RunIfLeader(t.Context(), "a", nothing, noonKey(), leader.WithFailureMode(leader.Rethrow))
	wantRan(t, r, err)
	r, err = electorOn(t, recording{d}, leader.WithRetryFailedRun()).RunIfLeader(t.Context(), "a", nothing)
	wantRan(t, r, err)
}

func TestRunKey_IsUnsupportedWithoutRecords(t *testing.T) {
	d := newDriver()
	_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, noonKey())
	wantIs(t, err, leader.ErrUnsupported)
	wantNames(t, err, "WithRunKey", "scripted")
	if n := d.count(); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}
