package leader_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestRelease_ComesAfterTheContextIsOverAndTheActionHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		var j journal
		hooks := recordingHooks(&j)
		e := electorOn(t, d, leader.WithHooks(hooks))
		var actions context.Context
		d.onVerb(releases, func(_ context.Context, apply func() error) error {
			if _, ok := leader.LeaseFrom(actions); ok || actions.Err() == nil {
				t.Error("the store is told while the lease is still trusted")
			}
			j.add("store told")
			return apply()
		})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := e.RunIfLeader(ctx, "a", func(ctx context.Context) error {
			actions = ctx
			context.AfterFunc(ctx, func() { j.add("over") })
			time.Sleep(time.Second)
			cancel()
			time.Sleep(time.Second)
			j.add("returned")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := j.String(); got != "acquired, over, returned, store told, released" {
			t.Errorf("order: %s", got)
		}
	})
}

func TestRelease_RenewalCoversTheDrain(t *testing.T) {
	rows := map[string]func(t *testing.T) (context.Context, []leader.RunOption){
		"after the caller's cancellation": func(t *testing.T) (context.Context, []leader.RunOption) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			return ctx, nil
		},
		"after MaxHold": func(t *testing.T) (context.Context, []leader.RunOption) {
			return t.Context(), []leader.RunOption{leader.WithMaxHold(5 * time.Second)}
		},
		"after Release inside the action": func(t *testing.T) (context.Context, []leader.RunOption) {
			return t.Context(), nil
		},
	}
	for name, setUp := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				ctx, opts := setUp(t)
				_, err := electorOn(t, d).RunIfLeader(ctx, "a", func(ctx context.Context) error {
					time.AfterFunc(5*time.Second, func() {
						if l, _ := leader.LeaseFrom(ctx); len(opts) == 0 && ctx.Err() == nil {
							_ = l.Release(ctx)
						}
					})
					<-ctx.Done()
					time.Sleep(10 * lease)
					if h := holderOf(t, d.store, "a"); h.Free() || h.Kept {
						t.Error("another could lead while the action drains")
					}
					return nil
				}, opts...)
				if err != nil {
					t.Fatal(err)
				}
				if n := d.count(renews); n < 25 {
					t.Errorf("%d renewals, want the rhythm to go on", n)
				}
				wantFree(t, d.store, "a")
			})
		})
	}
}

func TestRelease_HappensAlsoWhereTheCallersContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(releases, func(ctx context.Context, apply func() error) error {
			if ctx.Err() != nil {
				t.Error("released with a context that is done")
			}
			return apply()
		})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := electorOn(t, d).RunIfLeader(ctx, "a", func(context.Context) error {
			cancel()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantFree(t, d.store, "a")
	})
}

func TestElector_RunIfLeader_ReleasesWhenTheActionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		var seen leader.RunResult
		hooks := leader.Hooks{RunFinished: func(_ context.Context, _ string, r leader.RunResult, _ error) { seen = r }}
		e := electorOn(t, d, leader.WithHooks(hooks))
		func() {
			defer func() {
				if recover() != errAction { //nolint:errorlint // that very value
					t.Error("the panic did not unwind through the elector")
				}
			}()
			_, _ = e.RunIfLeader(t.Context(), "a", func(context.Context) error { panic(errAction) })
		}()
		wantFree(t, d.store, "a")
		if seen.Outcome != leader.ActionFailed || !errors.Is(seen.Err, leader.ErrNoReturn) || seen.Lease.Fence == 0 {
			t.Errorf("hooks saw %+v, want a failed action that did not return", seen)
		}
	})
}

func TestElector_RunIfLeader_ReleasesWhenTheActionEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		var seen leader.RunResult
		hooks := leader.Hooks{RunFinished: func(_ context.Context, _ string, r leader.RunResult, _ error) { seen = r }}
		e := electorOn(t, d, leader.WithHooks(hooks))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = e.RunIfLeader(t.Context(), "a", func(context.Context) error {
				runtime.Goexit()
				return nil
			})
			t.Error("RunIfLeader returned")
		}()
		<-done
		wantFree(t, d.store, "a")
		if seen.Outcome != leader.ActionFailed || !errors.Is(seen.Err, leader.ErrNoReturn) {
			t.Errorf("hooks saw %+v, want a failed action that did not return", seen)
		}
	})
}

func TestLease_Release_InsideTheActionEndsItsContextAndTellsTheStoreLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			l, _ := leader.LeaseFrom(ctx)
			for range 2 {
				if err := l.Release(ctx); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
			wantIs(t, context.Cause(ctx), leader.ErrLeaseLost, leader.ErrReleased)
			wantIs(t, l.Err(), leader.ErrReleased)
			if _, ok := leader.LeaseFrom(ctx); ok {
				t.Error("still trusted")
			}
			time.Sleep(time.Second)
			if holderOf(t, d.store, "a").Free() {
				t.Error("the store was told before the action returned")
			}
			return nil
		})
		if err != nil || r.Outcome != leader.Elected {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
		wantIs(t, r.Lost, leader.ErrReleased)
		wantFree(t, d.store, "a")
		if n := d.count(releases); n != 1 {
			t.Errorf("%d releases, want 1", n)
		}
	})
}

func TestRelease_IsTriedThreeTimes(t *testing.T) {
	for failures, released := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			d.first(failures, releases, fails(errDown))
			var j journal
			w := newWarnings()
			r, err := loggingElector(t, d, w, leader.WithHooks(recordingHooks(&j))).RunIfLeader(t.Context(), "a", nothing)
			if err != nil || !r.OK() {
				t.Errorf("got %v, %v: a failed release must not change the result", r, err)
			}
			if n := d.count(releases); n != min(failures+1, 3) {
				t.Errorf("%d tries after %d failures", n, failures)
			}
			hooks, logged := "acquired, released", ""
			if !released {
				hooks, logged = "acquired, release failed", "release failed; the lease ends by itself"
			}
			if j.String() != hooks || w.String() != logged {
				t.Errorf("%d failures: hooks %q, warnings %q", failures, &j, w.String())
			}
			if free := holderOf(t, d.store, "a").Free(); free != released {
				t.Errorf("free: %v, want %v", free, released)
			}
		})
	}
}

func TestRelease_OfAStoreThatHangsIsGivenUp(t *testing.T) {
	for _, blocking := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			freed := make(chan struct{})
			defer close(freed)
			d := newDriver()
			d.limits.Blocking = blocking
			d.onVerb(releases, hangs)
			if blocking {
				d.onVerb(releases, stuck(freed))
			}
			began := time.Now()
			r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
			if err != nil || !r.OK() {
				t.Errorf("got %v, %v, want elected", r, err)
			}
			if took := time.Since(began); took < attemptBound || took > 5*time.Second {
				t.Errorf("gave up after %v, want at most 5s", took)
			}
		})
	}
}

func TestRelease_IsNotTriedPastTheEndOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(releases, hangs)
		began := time.Now()
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(deadline-time.Second), leader.WithoutAutoExtend())
		if err != nil || !r.OK() {
			t.Errorf("got %v, %v, want elected", r, err)
		}
		if took := time.Since(began); took > lease {
			t.Errorf("released until %v, want at most the lease time", took)
		}
	})
}

func TestRelease_OfALeaseThatTheStoreLostIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(releases, fails(backend.ErrLost))
		var j journal
		if r, err := electorOn(t, d, leader.WithHooks(recordingHooks(&j))).RunIfLeader(t.Context(), "a", nothing); err != nil || !r.OK() {
			t.Errorf("got %v, %v, want elected", r, err)
		}
		if got := j.String(); got != "acquired, released" {
			t.Errorf("hooks: %s", got)
		}
	})
}

func TestRelease_NeverDisturbsASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(errDown))
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", func(context.Context) error {
			time.Sleep(lease)
			occupy(t, d.store, "a", time.Hour)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if h := holderOf(t, d.store, "a"); h.Owner != "somebody else" {
			t.Errorf("held by %+v, want the successor", h)
		}
	})
}

func TestRelease_WaitsBrieflyForARenewalUnderWay(t *testing.T) {
	for renewal, wait := range map[time.Duration]time.Duration{
		30 * time.Millisecond: 20 * time.Millisecond, 5 * time.Second: 100 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			d.onVerb(renews, answersAfter(renewal))
			var returned time.Duration
			_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", func(context.Context) error {
				for d.count(renews) == 0 {
					time.Sleep(10 * time.Millisecond)
				}
				returned = time.Since(d.began)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			wantAt(t, "released", d.log(releases)[0].at-returned, wait, 10*time.Millisecond)
			time.Sleep(renewal)
			synctest.Wait()
			wantFree(t, d.store, "a")
		})
	}
}

func TestElector_ANilActionIsRefusedBeforeAnything(t *testing.T) {
	d := newDriver()
	e := electorOn(t, d)
	_, err := e.RunIfLeader(t.Context(), "a", nil)
	wantIs(t, err, leader.ErrInvalidOption)
	wantIs(t, e.Campaign(t.Context(), "a", nil), leader.ErrInvalidOption)
	_, err = leader.RunIfLeader[int](t.Context(), e, "a", nil)
	wantIs(t, err, leader.ErrInvalidOption)
	if n := d.count(); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}
