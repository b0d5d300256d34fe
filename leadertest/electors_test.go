package leadertest_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/leadertest"
)

func nothing(context.Context) error { return nil }

// run is RunIfLeader that must not fail.
func run(
	t *testing.T, ctx context.Context, e leader.Elector, action leader.Action, opts ...leader.RunOption,
) leader.RunResult {
	t.Helper()
	r, err := e.RunIfLeader(ctx, "job", action, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stateOf is the state of name "job".
func stateOf(t *testing.T, ctx context.Context, e leader.Elector) leader.State {
	t.Helper()
	s, err := e.State(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAlways_ElectsEveryRunWithAGrowingFence(t *testing.T) {
	e := leadertest.Always()
	for i := range 3 {
		// A minimum lease would keep the name taken after the run.
		r := run(t, t.Context(), e, func(ctx context.Context) error {
			if l, ok := leader.LeaseFrom(ctx); !ok || l.Info().Name != "job" {
				t.Errorf("run %d: no trusted lease of the job in its context", i)
			}
			return nil
		}, leader.WithMinLease(time.Minute))
		if !r.OK() || r.Lease.Fence != uint64(i+1) || r.Lease.Node != "leadertest" {
			t.Errorf("run %d: %v by %s, want elected by leadertest with fence %d", i, r, r.Lease.Node, i+1)
		}
	}
}

func TestAlways_LeadsANameOnceAtATime(t *testing.T) {
	e, outside := leadertest.Always(), t.Context()
	run(t, outside, e, func(ctx context.Context) error {
		if r := run(t, outside, e, nothing); r.Reason != leader.Contended || r.Holder.Node != "leadertest" || r.Attempts != 0 {
			t.Errorf("inside a run of this elector: %v after %d attempts, want skipped without one", r, r.Attempts)
		}
		if r := run(t, ctx, leadertest.Always(), nothing); !r.OK() {
			t.Errorf("inside a run of another elector: %v, want elected", r)
		}
		_, err := e.RunIfLeader(ctx, "job", nothing)
		if !errors.Is(err, leader.ErrReentrant) {
			t.Errorf("inside itself: %v, want ErrReentrant", err)
		}
		return nil
	})
}

func TestAlways_RenewsALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, t.Context(), leadertest.Always(), func(ctx context.Context) error {
			time.Sleep(24 * time.Hour)
			return ctx.Err()
		})
		if !r.OK() || r.Lease.Held != 24*time.Hour {
			t.Errorf("%v held for %v, want a lease that lasted", r, r.Lease.Held)
		}
	})
}

func TestAlways_EndsALeaseThatIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, outside := leadertest.Always(), t.Context()
		r := run(t, outside, e, func(ctx context.Context) error {
			<-ctx.Done()
			if r := run(t, outside, e, nothing); !r.OK() || r.Lease.Fence != 2 {
				t.Errorf("after the end of the lease: %v, want elected with the next fence", r)
			}
			return nil
		}, leader.WithoutAutoExtend(), leader.WithLeaseTime(time.Minute))
		if !errors.Is(r.Lost, leader.ErrExpired) {
			t.Errorf("lost: %v, want ErrExpired", r.Lost)
		}
	})
}

func TestAlways_ShowsItsLeaseInState(t *testing.T) {
	e := leadertest.Always()
	if s := stateOf(t, t.Context(), e); s.Node != "" || s.Fence != 0 {
		t.Errorf("before a run: %+v, want nobody", s)
	}
	run(t, t.Context(), e, func(ctx context.Context) error {
		s := stateOf(t, ctx, e)
		if s.Node != "leadertest" || s.Fence != 1 || s.Remaining <= 0 || s.Since.IsZero() || s.Metadata["zone"] != "a" {
			t.Errorf("in a run: %+v", s)
		}
		return nil
	}, leader.WithMetadata(map[string]string{"zone": "a"}))
	if s := stateOf(t, t.Context(), e); s.Node != "" {
		t.Errorf("after a run: %+v, want nobody", s)
	}
}

func TestNever_SkipsAndNamesTheHolder(t *testing.T) {
	e := leadertest.Never("node-b")
	for range 2 {
		r := run(t, t.Context(), e, func(context.Context) error {
			t.Error("the action ran")
			return nil
		})
		if r.Outcome != leader.Skipped || r.Reason != leader.Contended || r.Holder.Node != "node-b" || r.Holder.Fence != 1 {
			t.Errorf("%v, holder %+v; want skipped because of node-b with fence 1", r, r.Holder)
		}
	}
	if s := stateOf(t, t.Context(), e); s.Node != "node-b" || s.Fence != 1 {
		t.Errorf("state %+v, want node-b with fence 1", s)
	}
	if _, err := e.Acquire(t.Context(), "job"); !errors.Is(err, leader.ErrNotElected) {
		t.Errorf("acquire: %v, want ErrNotElected", err)
	}
}

func TestNever_WithAnUnknownHolder_SkipsAsWell(t *testing.T) {
	if r := run(t, t.Context(), leadertest.Never(""), nothing); r.Reason != leader.Contended {
		t.Errorf("%v, want contended", r)
	}
}

func TestNever_UsesUpTheWaitTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := run(t, t.Context(), leadertest.Never("node-b"), nothing, leader.WithWaitTime(time.Minute))
		if r.Reason != leader.Contended || r.Attempts < 2 {
			t.Errorf("%v after %d attempts, want contended after several", r, r.Attempts)
		}
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("waited %v, want a minute", waited)
		}
	})
}

func TestNever_Campaigns_UntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := leadertest.Never("node-b").Campaign(ctx, "job", func(context.Context) error {
			t.Error("led")
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the deadline", err)
		}
	})
}

func TestScript_TakesAStepForEachAttemptAndRepeatsTheLast(t *testing.T) {
	e := leadertest.Script(leadertest.Elected(), leadertest.HeldBy("node-b"), leadertest.HeldBy("node-c"))
	var got []string
	for range 4 {
		got = append(got, run(t, t.Context(), e, nothing).String())
	}
	want := []string{
		"Elected (fence 1)", "Skipped (Contended, held by node-b)",
		"Skipped (Contended, held by node-c)", "Skipped (Contended, held by node-c)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if s := stateOf(t, t.Context(), e); s.Fence != 3 {
		t.Errorf("the third holder has fence %d, want 3", s.Fence)
	}
}

func TestScript_WaitsThroughStepsUntilElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leadertest.Script(leadertest.HeldBy("node-b"), leadertest.Fails(nil), leadertest.Elected())
		r := run(t, t.Context(), e, nothing, leader.WithWaitTime(time.Minute))
		if !r.OK() || r.Attempts != 3 || r.Lease.Fence != 2 {
			t.Errorf("%v after %d attempts, want elected with fence 2 at the third", r, r.Attempts)
		}
	})
}

func TestScript_ShowsTheNextStepInStateWithoutTakingIt(t *testing.T) {
	e := leadertest.Script(leadertest.HeldBy("node-b"), leadertest.Fails(leader.ErrUnavailable), leadertest.Elected())
	for range 2 {
		if s := stateOf(t, t.Context(), e); s.Node != "node-b" || s.Fence != 1 {
			t.Errorf("state %+v, want node-b with fence 1", s)
		}
	}
	if r := run(t, t.Context(), e, nothing); r.Holder.Node != "node-b" || r.Holder.Fence != 1 {
		t.Errorf("%v, want held by node-b", r)
	}
	if _, err := e.State(t.Context(), "job"); !errors.Is(err, leader.ErrUnavailable) {
		t.Errorf("state: %v, want ErrUnavailable", err)
	}
}

func TestScript_WithoutSteps_FailsAsMisconfigured(t *testing.T) {
	_, err := leadertest.Script().RunIfLeader(t.Context(), "job", nothing)
	if !errors.Is(err, leader.ErrMisconfigured) {
		t.Errorf("%v, want ErrMisconfigured", err)
	}
}

func TestFails_GivesTheErrorItsKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind backend.Kind
	}{
		{nil, backend.Unavailable},
		{io.ErrUnexpectedEOF, backend.Unknown},
		{leader.ErrUnavailable, backend.Unavailable},
		{leader.ErrDenied, backend.Denied},
		{leader.ErrMisconfigured, backend.Misconfigured},
		{backend.WithKind(io.ErrUnexpectedEOF, backend.Denied), backend.Denied},
	} {
		_, err := leadertest.Script(leadertest.Fails(c.err)).RunIfLeader(t.Context(), "job", nothing)
		failure, ok := errors.AsType[*leader.BackendError](err)
		if !ok || failure.Kind != c.kind || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("Fails(%v): %v, want a BackendError of kind %v with it inside", c.err, err, c.kind)
		}
	}
}

func TestFails_IsSubjectToTheFailureMode(t *testing.T) {
	e := leadertest.Script(leadertest.Fails(nil))
	if r := run(t, t.Context(), e, nothing, leader.WithFailureMode(leader.Skip)); r.Reason != leader.BackendFailed {
		t.Errorf("%v, want BackendFailed", r)
	}
	if r := run(t, t.Context(), e, nothing, leader.WithFailureMode(leader.FailOpenRun)); !r.Unguarded {
		t.Errorf("%v, want unguarded", r)
	}
}

func TestLosing_EndsTheContextAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		// The lease is shorter than the time: until then it is renewed.
		r := run(t, t.Context(), leadertest.Losing(time.Hour), func(ctx context.Context) error {
			<-ctx.Done()
			if held := time.Since(began); held != time.Hour {
				t.Errorf("lost after %v, want an hour", held)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrLeaseLost) || !errors.Is(cause, leader.ErrTakenOver) {
				t.Errorf("cause %v, want ErrLeaseLost and ErrTakenOver", cause)
			}
			if _, ok := leader.LeaseFrom(ctx); ok {
				t.Error("the lease is still trusted")
			}
			return nil
		}, leader.WithLeaseTime(time.Second))
		if r.OK() || !errors.Is(r.Lost, leader.ErrTakenOver) {
			t.Errorf("%v, want an election that was lost", r)
		}
	})
}

func TestLosing_LosesNothingThatWasReleasedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leadertest.Losing(time.Minute)
		for range 2 {
			r := run(t, t.Context(), e, func(context.Context) error {
				time.Sleep(59 * time.Second)
				return nil
			})
			if !r.OK() {
				t.Errorf("%v, want elected", r)
			}
		}
	})
}

func TestLosing_Campaigns_AgainAfterEachLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fences []uint64
		err := leadertest.Losing(time.Minute).Campaign(t.Context(), "job", func(ctx context.Context) error {
			l, _ := leader.LeaseFrom(ctx)
			fences = append(fences, l.Info().Fence)
			if len(fences) == 3 {
				return io.EOF
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, io.EOF) || !slices.Equal(fences, []uint64{1, 2, 3}) {
			t.Errorf("led with fences %v and ended with %v", fences, err)
		}
	})
}

func TestLosing_AtOnce_EndsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{0, -time.Second} {
			r := run(t, t.Context(), leadertest.Losing(d), func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
			if !errors.Is(r.Lost, leader.ErrTakenOver) || r.Lease.Held > 10*time.Millisecond {
				t.Errorf("Losing(%v): %v after %v, want it lost within 10ms", d, r, r.Lease.Held)
			}
		}
	})
}

func TestScript_LostAfter_IsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leadertest.Script(leadertest.LostAfter(time.Minute), leadertest.HeldBy("node-b"))
		l, err := e.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		var nodes []string
		for s, err := range e.Watch(t.Context(), "job") {
			if err != nil {
				t.Fatal(err)
			}
			if nodes = append(nodes, s.Node); len(nodes) == 2 {
				break
			}
		}
		if !slices.Equal(nodes, []string{"leadertest", "node-b"}) {
			t.Errorf("watched %q, want the loser and then node-b", nodes)
		}
		if err := l.Err(); !errors.Is(err, leader.ErrTakenOver) {
			t.Errorf("the lease says %v, want ErrTakenOver", err)
		}
	})
}
