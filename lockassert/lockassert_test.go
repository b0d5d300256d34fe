package lockassert_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/leadertest"
	"github.com/goleader/leader/lockassert"
)

// lead runs action under a lease of name, which must be got.
func lead(t *testing.T, ctx context.Context, name string, action func(ctx context.Context), opts ...leader.RunOption) {
	t.Helper()
	r, err := leadertest.Always().RunIfLeader(ctx, name, func(ctx context.Context) error {
		action(ctx)
		return nil
	}, opts...)
	if err != nil || r.Outcome != leader.Elected {
		t.Fatal(r, err)
	}
}

// wantErrors demands that err is all of those; without any, that it is nil.
func wantErrors(t *testing.T, err error, want ...error) {
	t.Helper()
	if len(want) == 0 && err != nil {
		t.Errorf("%v, want nil", err)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%v, want an error that is %q", err, w)
		}
	}
}

func TestHeld_UnderALease(t *testing.T) {
	lead(t, t.Context(), "a", func(ctx context.Context) {
		wantErrors(t, lockassert.Held(ctx))
		wantErrors(t, lockassert.Held(ctx, "a"))
		wantErrors(t, lockassert.Held(ctx, "b"), lockassert.ErrNotHeld)
		wantErrors(t, lockassert.Held(ctx, "a", "b"), lockassert.ErrNotHeld)
		lockassert.Must(ctx, "a")
	})
}

func TestHeld_FollowsDerivedContextsAcrossGoroutines(t *testing.T) {
	lead(t, t.Context(), "a", func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
		defer cancel()
		held := make(chan error)
		go func() { held <- lockassert.Held(ctx, "a") }()
		wantErrors(t, <-held)
	})
}

func TestHeld_OutsideOfALease(t *testing.T) {
	wantErrors(t, lockassert.Held(t.Context()), lockassert.ErrNotHeld)
	wantErrors(t, lockassert.Held(t.Context(), "a"), lockassert.ErrNotHeld)
	if err := lockassert.Held(t.Context(), "a"); errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("%v: nothing was lost", err)
	}
}

func TestHeld_FindsEveryLeaseItIsNestedIn(t *testing.T) {
	lead(t, t.Context(), "outer", func(ctx context.Context) {
		lead(t, ctx, "middle", func(ctx context.Context) {
			lead(t, ctx, "inner", func(ctx context.Context) {
				wantErrors(t, lockassert.Held(ctx, "inner", "middle", "outer"))
				wantErrors(t, lockassert.Held(ctx, "outer"))
				wantErrors(t, lockassert.Held(ctx, "outer", "other"), lockassert.ErrNotHeld)
			})
			wantErrors(t, lockassert.Held(ctx, "inner"), lockassert.ErrNotHeld)
		})
	})
}

func TestHeld_FindsALeaseThroughAPretendedOne(t *testing.T) {
	lead(t, t.Context(), "outer", func(ctx context.Context) {
		lead(t, leadertest.Pretend(ctx, "middle"), "inner", func(ctx context.Context) {
			wantErrors(t, lockassert.Held(ctx, "inner", "middle", "outer"))
		})
	})
}

func TestHeld_IsOverWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, t.Context(), "a", func(ctx context.Context) {
			time.Sleep(time.Minute)
			for _, err := range []error{lockassert.Held(ctx), lockassert.Held(ctx, "a")} {
				wantErrors(t, err, lockassert.ErrNotHeld, leader.ErrLeaseLost, leader.ErrExpired)
			}
		}, leader.WithoutAutoExtend(), leader.WithLeaseTime(time.Minute))
	})
}

func TestHeld_IsOverWithAnOuterLeaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, t.Context(), "outer", func(ctx context.Context) {
			lead(t, context.WithoutCancel(ctx), "inner", func(ctx context.Context) {
				time.Sleep(time.Minute)
				wantErrors(t, lockassert.Held(ctx))
				wantErrors(t, lockassert.Held(ctx, "inner"))
				wantErrors(t, lockassert.Held(ctx, "inner", "outer"), lockassert.ErrNotHeld, leader.ErrExpired)
			})
		}, leader.WithoutAutoExtend(), leader.WithLeaseTime(time.Minute))
	})
}

func TestHeld_IsOverOnceTheLeaseIsReleased(t *testing.T) {
	l, err := leadertest.Always().Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wantErrors(t, lockassert.Held(l.Context(), "a"))
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantErrors(t, lockassert.Held(l.Context(), "a"), lockassert.ErrNotHeld, leader.ErrReleased)
}

func TestHeld_IsNoneWhereTheActionRunsWithoutALease(t *testing.T) {
	down := leadertest.Script(leadertest.Fails(backend.WithKind(errors.New("connection refused"), backend.Unavailable)))
	r, err := down.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
		wantErrors(t, lockassert.Held(ctx), lockassert.ErrNotHeld)
		outcome, err := lockassert.Extend(ctx, time.Minute)
		wantErrors(t, err, lockassert.ErrNotHeld)
		wantOutcome(t, outcome, lockassert.NotHeld)
		return nil
	}, leader.WithFailureMode(leader.FailOpenRun))
	if err != nil || !r.Unguarded {
		t.Fatal(r, err)
	}
}

func TestMust_PanicsWithTheError(t *testing.T) {
	defer func() {
		err, ok := recover().(error)
		if !ok {
			t.Fatal("no error")
		}
		wantErrors(t, err, lockassert.ErrNotHeld)
		if want := `lockassert: "a": lease not held`; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}()
	lockassert.Must(t.Context(), "a")
	t.Error("no panic")
}

func wantOutcome(t *testing.T, got, want lockassert.Outcome) {
	t.Helper()
	if got != want {
		t.Errorf("outcome %v, want %v", got, want)
	}
}

func TestExtend_LetsTheLeaseLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, t.Context(), "a", func(ctx context.Context) {
			outcome, err := lockassert.Extend(ctx, time.Hour)
			wantErrors(t, err)
			wantOutcome(t, outcome, lockassert.Extended)
			time.Sleep(50 * time.Minute)
			wantErrors(t, lockassert.Held(ctx, "a"))
		}, leader.WithoutAutoExtend(), leader.WithLeaseTime(time.Minute))
	})
}

func TestExtend_NeverShortensALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, t.Context(), "a", func(ctx context.Context) {
			outcome, err := lockassert.Extend(ctx, time.Second)
			wantErrors(t, err)
			wantOutcome(t, outcome, lockassert.Extended)
			time.Sleep(50 * time.Second)
			wantErrors(t, lockassert.Held(ctx, "a"))
		}, leader.WithoutAutoExtend(), leader.WithLeaseTime(time.Minute))
	})
}

func TestExtend_RefusesWhatIsNotPositive(t *testing.T) {
	lead(t, t.Context(), "a", func(ctx context.Context) {
		for _, d := range []time.Duration{0, -time.Second} {
			outcome, err := lockassert.Extend(ctx, d)
			wantErrors(t, err, leader.ErrInvalidOption)
			wantOutcome(t, outcome, 0)
		}
		wantErrors(t, lockassert.Held(ctx))
	})
}

func TestExtend_TellsALeaseThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, t.Context(), "a", func(ctx context.Context) {
			time.Sleep(time.Minute)
			outcome, err := lockassert.Extend(ctx, time.Hour)
			wantErrors(t, err, lockassert.ErrNotHeld, leader.ErrExpired)
			wantOutcome(t, outcome, lockassert.NotHeld)
		}, leader.WithoutAutoExtend(), leader.WithLeaseTime(time.Minute))
	})
}

// renewing is a store in memory whose renewals answer an error.
type renewing struct {
	*local.Backend

	err error
}

type renewingLease struct {
	backend.Lease

	err error
}

func (r renewing) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	l, err := r.Backend.TryAcquire(ctx, req)
	return renewingLease{l, r.err}, err
}

func (l renewingLease) Renew(context.Context, time.Duration) error { return l.err }

func TestExtend_TellsWhatTheStoreAnswers(t *testing.T) {
	down := backend.WithKind(errors.New("connection refused"), backend.Unavailable)
	rows := map[string]struct {
		answer  error
		outcome lockassert.Outcome
		held    bool
		want    []error
	}{
		"it is out of reach": {down, lockassert.BackendError, true, []error{down, leader.ErrUnavailable}},
		"it has no such lease": {
			backend.ErrLost, lockassert.NotHeld, false, []error{lockassert.ErrNotHeld, leader.ErrTakenOver},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			e, err := leader.New(renewing{local.New(), row.answer}, leader.WithLogger(nil))
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
				outcome, err := lockassert.Extend(ctx, time.Hour)
				wantErrors(t, err, row.want...)
				wantOutcome(t, outcome, row.outcome)
				if held := lockassert.Held(ctx) == nil; held != row.held {
					t.Errorf("held: %v, want %v", held, row.held)
				}
				return nil
			})
			wantErrors(t, err)
		})
	}
}

func TestOutcome_String(t *testing.T) {
	got := fmt.Sprint(lockassert.Outcome(0), lockassert.Extended, lockassert.NotHeld, lockassert.BackendError)
	if want := "None Extended NotHeld BackendError"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func ExampleHeld() {
	compact := func(ctx context.Context) error {
		if err := lockassert.Held(ctx, "compaction"); err != nil {
			return err
		}
		fmt.Println("compacting")
		return nil
	}
	fmt.Println(compact(context.Background()))
	result, err := leadertest.Always().RunIfLeader(context.Background(), "compaction", compact)
	fmt.Println(result.OK(), err)
	// Output:
	// lockassert: "compaction": lease not held
	// compacting
	// true <nil>
}
