package leader_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestHooks_TellARunInOrder(t *testing.T) {
	rows := map[string]struct {
		script func(d *driver)
		action leader.Action
		want   string
	}{
		"a quick run":          {func(*driver) {}, nothing, "acquired, released"},
		"a store that is down": {func(d *driver) { d.onVerb(acquires, fails(errDown)) }, nothing, "acquire failed"},
		"another leads":        {func(d *driver) { d.onVerb(acquires, fails(backend.ErrHeld)) }, nothing, ""},
		"a failing renewal": {
			func(d *driver) { d.first(1, renews, fails(errDown)) },
			works(lease), "acquired, renew failed, released",
		},
		"a loss": {
			func(d *driver) { d.onVerb(renews, fails(backend.ErrLost)) },
			untilDone, "acquired, lost",
		},
		"a loss that the action does not notice": {
			func(d *driver) { d.onVerb(renews, fails(backend.ErrLost)) },
			works(2 * lease), "acquired, lost",
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				row.script(d)
				var j journal
				e := electorOn(t, d, leader.WithHooks(recordingHooks(&j)))
				_, _ = e.RunIfLeader(t.Context(), "a", row.action) // the hooks are what counts
				synctest.Wait()
				if got := j.String(); got != row.want {
					t.Errorf("hooks: %s, want %s", got, row.want)
				}
			})
		})
	}
}

func TestHooks_TellEachAttemptOfAWaitAtWhichTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(2, acquires, fails(errDown))
		var j journal
		e := electorOn(t, d, leader.WithHooks(recordingHooks(&j)))
		if _, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if got, want := j.String(), "acquire failed, acquire failed, acquired, released"; got != want {
			t.Errorf("hooks: %s, want %s", got, want)
		}
	})
}

func TestHooks_TellOfARunKeyThatCannotBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(puts, fails(errDown))
		var j journal
		e := electorOn(t, recording{d}, leader.WithHooks(recordingHooks(&j)))
		_, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithRunKey("today", time.Hour))
		wantIs(t, err, errDown)
		if got, want := j.String(), "acquired, released, acquire failed"; got != want {
			t.Errorf("hooks: %s, want %s", got, want)
		}
	})
}

// The context of a lost lease may name a failure of the store as its cause, which is not one of this attempt.
func TestHooks_DoNotTakeTheEndOfAContextForAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		time.AfterFunc(time.Second, func() { cancel(&leader.BackendError{Op: "renew", Err: errDown}) })
		d := newDriver()
		d.onVerb(acquires, fails(backend.ErrHeld))
		var j journal
		e := electorOn(t, d, leader.WithHooks(recordingHooks(&j)))
		_, err := e.RunIfLeader(ctx, "a", nothing, leader.WithWaitTime(time.Minute))
		wantIs(t, err, errDown)
		if got := j.String(); got != "" {
			t.Errorf("hooks: %s, want none", got)
		}
	})
}

// Whoever counts the leases that are held must be told of each end.
func TestHooks_TellTheEndOfALeaseThatWasReleasedInsideTheAction(t *testing.T) {
	released := func(after leader.Action) leader.Action {
		return func(ctx context.Context) error {
			l, _ := leader.LeaseFrom(ctx)
			if err := l.Release(ctx); err != nil {
				return err
			}
			return after(ctx)
		}
	}
	rows := map[string]struct {
		script func(d *driver)
		opts   []leader.RunOption
		drain  time.Duration
		want   string
	}{
		"at once":                  {nil, nil, 0, "acquired, released"},
		"after a while":            {nil, nil, 2 * lease, "acquired, released"},
		"after it was taken over":  {func(d *driver) { d.onVerb(renews, fails(backend.ErrLost)) }, nil, lease, "acquired, released"},
		"after it was not renewed": {nil, []leader.RunOption{leader.WithoutAutoExtend()}, lease, "acquired, release failed"},
		"late, but before its end": {nil, []leader.RunOption{leader.WithoutAutoExtend()}, lease - 1, "acquired, released"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				if row.script != nil {
					row.script(d)
				}
				var j journal
				e := electorOn(t, d, leader.WithHooks(recordingHooks(&j)))
				if _, err := e.RunIfLeader(t.Context(), "a", released(works(row.drain)), row.opts...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if got := j.String(); got != row.want {
					t.Errorf("hooks: %s, want %s", got, row.want)
				}
			})
		})
	}
}

func TestHooks_TellTheEndOfALeaseAlsoWhereAnotherHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		bad := leader.Hooks{Acquired: func(context.Context, leader.LeaseInfo) { panic("a hook") }}
		e := electorOn(t, newDriver(), leader.WithHooks(leader.JoinHooks(recordingHooks(&j), bad)))
		func() {
			defer func() { _ = recover() }()
			_, _ = e.RunIfLeader(t.Context(), "a", nothing)
			t.Error("the panic did not go on up")
		}()
		if got := j.String(); got != "acquired, released" {
			t.Errorf("hooks: %s, want acquired, released", got)
		}
	})
}

func TestHooks_RunStartedMayChangeTheContextOfTheRun(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var seen journal
		see := func(ctx context.Context, what string) { seen.add(fmt.Sprint(what, " ", ctx.Value(key{}))) }
		hooks := leader.Hooks{
			RunStarted: func(ctx context.Context, name string) context.Context { return context.WithValue(ctx, key{}, name) },
			Acquired:   func(ctx context.Context, _ leader.LeaseInfo) { see(ctx, "acquired") },
			Renewed:    func(ctx context.Context, _ leader.LeaseInfo, _ time.Duration) { see(ctx, "renewed") },
			Released:   func(ctx context.Context, _ leader.LeaseInfo) { see(ctx, "released") },
			RunFinished: func(ctx context.Context, name string, r leader.RunResult, err error) {
				see(ctx, "finished")
				if name != "a" || !r.OK() || err != nil {
					t.Errorf("finished %q: %v, %v", name, r, err)
				}
			},
		}
		_, err := electorOn(t, newDriver(), leader.WithHooks(hooks)).RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			see(ctx, "action")
			time.Sleep(lease / 2)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := seen.String(); got != "acquired a, action a, renewed a, released a, finished a" {
			t.Errorf("seen: %s", got)
		}
	})
}

func TestHooks_RunFinishedSeesWhatIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, fails(errDown))
		calls := 0
		hooks := leader.Hooks{RunFinished: func(_ context.Context, _ string, _ leader.RunResult, err error) {
			calls++
			wantIs(t, err, errDown)
		}}
		_, err := electorOn(t, d, leader.WithHooks(hooks)).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, errDown)
		if calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
	})
}

func TestHooks_ThatBlockDoNotDelayTheEndOfAContext(t *testing.T) {
	block := func(context.Context, leader.LeaseInfo, error) { time.Sleep(time.Hour) }
	rows := map[string]struct {
		hooks leader.Hooks
		renew answer
		want  time.Duration
	}{
		"renew failed": {leader.Hooks{RenewFailed: block}, fails(errDown), deadline},
		"lost":         {leader.Hooks{Lost: block}, fails(errDown), deadline},
		"renewed": {leader.Hooks{Renewed: func(context.Context, leader.LeaseInfo, time.Duration) {
			time.Sleep(time.Hour)
		}}, nil, 10 * time.Minute},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.onVerb(renews, row.renew)
				end, _ := endOf(t, electorOn(t, d, leader.WithHooks(row.hooks)), leader.WithMaxHold(10*time.Minute))
				if end != row.want {
					t.Errorf("the context ended after %v, want %v", end, row.want)
				}
				time.Sleep(1000 * time.Hour)
			})
		})
	}
}

func TestHooks_OfOneLeaseDoNotDelayAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, renews, fails(errDown))
		hooks := leader.Hooks{RenewFailed: func(_ context.Context, l leader.LeaseInfo, _ error) {
			time.Sleep(time.Hour)
		}}
		leadMany(t, electorOn(t, d, leader.WithHooks(hooks)), 10, 10*time.Minute)
		time.Sleep(time.Hour)
	})
}

func TestHooks_MayUseTheElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		var e *leader.Single
		var calls atomic.Int32
		use := func(ctx context.Context) {
			calls.Add(1)
			if _, err := e.State(ctx, "a"); err != nil {
				t.Error(err)
			}
			if _, err := e.RunIfLeader(context.WithoutCancel(ctx), "b", nothing); err != nil {
				t.Error(err)
			}
		}
		busy := false
		hooks := leader.Hooks{
			Acquired: func(ctx context.Context, l leader.LeaseInfo) {
				if l.Name == "a" && !busy {
					busy = true
					use(ctx)
				}
			},
			Lost: func(ctx context.Context, _ leader.LeaseInfo, _ error) { use(ctx) },
		}
		e = electorOn(t, d, leader.WithHooks(hooks))
		d.onVerb(renews, fails(backend.ErrLost))
		if _, err := e.RunIfLeader(t.Context(), "a", untilDone); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := calls.Load(); n != 2 {
			t.Errorf("%d uses, want 2", n)
		}
	})
}

func TestJoinHooks_CallsAllInOrder(t *testing.T) {
	var seen []string
	one := everyHook(func(hook string) { seen = append(seen, "1 "+hook) })
	two := everyHook(func(hook string) { seen = append(seen, "2 "+hook) })
	callEvery(leader.JoinHooks(one, leader.Hooks{}, two))
	var want []string
	for hook := range reflect.TypeFor[leader.Hooks]().Fields() {
		want = append(want, "1 "+hook.Name, "2 "+hook.Name)
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("called %v, want %v", seen, want)
	}
}

func TestJoinHooks_OfNothingCallsNothing(t *testing.T) {
	h := reflect.ValueOf(leader.JoinHooks(leader.Hooks{}, leader.Hooks{}))
	for i := range h.NumField() {
		if !h.Field(i).IsNil() {
			t.Errorf("%s is set", h.Type().Field(i).Name)
		}
	}
	if !reflect.ValueOf(leader.JoinHooks()).IsZero() {
		t.Error("JoinHooks() is not the zero Hooks")
	}
}

// everyHook sets all hooks to tell their names.
func everyHook(see func(hook string)) leader.Hooks {
	var h leader.Hooks
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
			see(name)
			return args[:v.Field(i).Type().NumOut()] // RunStarted returns its context
		}))
	}
	return h
}

func callEvery(h leader.Hooks) {
	v := reflect.ValueOf(h)
	for _, f := range v.Fields() {
		args := make([]reflect.Value, f.Type().NumIn())
		for j := range args {
			args[j] = reflect.Zero(f.Type().In(j))
		}
		f.Call(args)
	}
}

func TestHooks_TheCauseOfALossIsThatOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(errDown))
		var told error
		hooks := leader.Hooks{Lost: func(_ context.Context, l leader.LeaseInfo, cause error) {
			told = cause
			if l.Name != "a" || l.Fence == 0 {
				t.Errorf("told of %+v", l)
			}
		}}
		_, r := endOf(t, electorOn(t, d, leader.WithHooks(hooks)))
		synctest.Wait()
		if told == nil || !errors.Is(r.Err, told) {
			t.Errorf("the hook was told %v, the context %v", told, r.Err)
		}
	})
}
