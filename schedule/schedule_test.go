package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/leadertest"
	"github.com/goleader/leader/schedule"
)

var errJob = errors.New("no paper")

func nothing(context.Context) error { return nil }

func newElector(t testing.TB, store *local.Backend, opts ...leader.Option) leader.Elector {
	t.Helper()
	e, err := leader.New(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var silent = schedule.WithLogger(slog.New(slog.DiscardHandler))

// runs is what an action has seen.
type runs struct {
	mu      sync.Mutex
	fires   []time.Time
	atWork  atomic.Int32
	overlap atomic.Bool
}

// action takes the time that it is given.
func (r *runs) action(takes time.Duration) leader.Action {
	return func(ctx context.Context) error {
		if r.atWork.Add(1) > 1 {
			r.overlap.Store(true)
		}
		defer r.atWork.Add(-1)
		fire, _ := schedule.FireTime(ctx)
		r.mu.Lock()
		r.fires = append(r.fires, fire)
		r.mu.Unlock()
		time.Sleep(takes)
		return nil
	}
}

func (r *runs) list() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.fires)
}

// start runs a job until the test stops it, which waits for its end.
func start(t *testing.T, e leader.Runner, when schedule.Schedule, action leader.Action, opts ...schedule.Option) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- schedule.Run(ctx, e, "job", when, action, opts...) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestRun_ThreeNodesStartedApart_RunEachFireTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := local.New(), &runs{}
		for range 3 {
			t.Cleanup(start(t, newElector(t, store), schedule.Every(2*time.Second), seen.action(20*time.Millisecond),
				schedule.WithJitter(500*time.Millisecond))) // or they would all come at one moment, and contend
			time.Sleep(300 * time.Millisecond)
		}
		began := time.Now() // 0.9 s after a fire time
		time.Sleep(10 * time.Second)
		fires := seen.list()
		if len(fires) != 5 {
			t.Errorf("%d runs in 10 s, want 5: %v", len(fires), fires)
		}
		for i, fire := range fires {
			if want := began.Add(1100*time.Millisecond + time.Duration(i)*2*time.Second); !fire.Equal(want) {
				t.Errorf("run %d is for %v, want %v", i, fire, want)
			}
		}
	})
}

func TestRun_OfOneName_AreNeverAtWorkTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := local.New(), &runs{}
		one := newElector(t, store)
		for _, e := range []leader.Elector{one, one, newElector(t, store)} {
			t.Cleanup(start(t, e, schedule.Every(2*time.Second), seen.action(5*time.Second), silent))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n := len(seen.list()); seen.overlap.Load() || n < 9 || n > 11 {
			t.Errorf("%d runs, overlapping: %v; want about ten, one after the other", n, seen.overlap.Load())
		}
	})
}

func TestRun_RunOnce_WaitsForTheNameUntilTheNextFireTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := local.New(), &runs{}
		holder, err := newElector(t, store).Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		defer start(t, newElector(t, store), schedule.Every(time.Minute), seen.action(0), silent,
			schedule.WithMissed(schedule.RunOnce))()
		time.Sleep(150 * time.Second)
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if fires := seen.list(); len(fires) != 1 || !fires[0].Equal(began.Add(2*time.Minute)) {
			t.Errorf("ran for %v; want the newest that was missed, as soon as the name was free", fires)
		}
	})
}

func TestRun_AFailure_IsLoggedAndTheNextFireTimeIsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&logged, nil))
		n := 0
		store := local.New()
		stop := start(t, newElector(t, store), schedule.Every(time.Minute), func(context.Context) error {
			if n++; n == 1 {
				return errJob
			}
			return nil
		}, schedule.WithLogger(logger))
		time.Sleep(150 * time.Second)
		stop()
		if n != 2 {
			t.Errorf("%d runs, want 2", n)
		}
		for _, want := range []string{"level=ERROR", "the job failed", "leader.name=job", "no paper", "fire=2000-01-01T00:01:00"} {
			if !strings.Contains(logged.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, logged.String())
			}
		}
	})
}

// noAnswer is a runner whose store cannot be asked.
type noAnswer struct{ calls int }

func (n *noAnswer) RunIfLeader(context.Context, string, leader.Action, ...leader.RunOption) (leader.RunResult, error) {
	n.calls++
	return leader.RunResult{}, leader.ErrUnavailable
}

func TestRun_AStoreThatCannotBeAsked_IsLoggedAndAskedAgain(t *testing.T) {
	for _, when := range []schedule.Schedule{schedule.Every(time.Minute), schedule.Delay(time.Minute)} {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			store := &noAnswer{}
			stop := start(t, store, when, nothing, schedule.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
			time.Sleep(3*time.Minute + time.Second)
			stop()
			if n := strings.Count(logged.String(), "the store could not be asked"); store.calls < 3 || store.calls > 4 || n != store.calls {
				t.Errorf("%T: %d calls, %d logged; want one each minute", when, store.calls, n)
			}
		})
	}
}

func TestRun_AStoreThatFails_IsLoggedWithFailureModeSkipAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		stop := start(t, leadertest.Script(leadertest.Fails(nil)), schedule.Every(time.Minute), nothing,
			schedule.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))),
			schedule.WithRunOptions(leader.WithFailureMode(leader.Skip)))
		time.Sleep(61 * time.Second)
		stop()
		if !strings.Contains(logged.String(), "not run: the store could not be asked") {
			t.Errorf("the log does not say that a fire time was not run:\n%s", logged.String())
		}
	})
}

func TestRun_LosesItsLease_GoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ticks []schedule.Tick
		stop := start(t, newElector(t, local.New()), schedule.Every(time.Minute), func(ctx context.Context) error {
			l, _ := leader.LeaseFrom(ctx)
			return l.Release(ctx)
		}, silent, schedule.WithReport(func(_ context.Context, tick schedule.Tick) { ticks = append(ticks, tick) }))
		time.Sleep(150 * time.Second)
		stop()
		if len(ticks) != 2 || !errors.Is(ticks[0].Result.Lost, leader.ErrReleased) {
			t.Errorf("%+v; want two that gave their lease away", ticks)
		}
	})
}

func TestRun_EndsWithItsContext_AndWaitsForTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		returned := false
		stop := start(t, newElector(t, local.New()), schedule.Every(time.Minute), func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			returned = true
			return ctx.Err()
		}, silent)
		time.Sleep(61 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); !returned || took != 5*time.Second {
			t.Errorf("Run returned after %v, action returned: %v; want it to wait for that", took, returned)
		}
	})
}

func TestRun_WithDrain_LetsTheActionGoOnUnderItsLease(t *testing.T) {
	for _, takes := range []time.Duration{10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var held time.Duration
			stop := start(t, newElector(t, local.New()), schedule.Every(time.Minute), func(ctx context.Context) error {
				began := time.Now()
				defer func() { held = time.Since(began) }()
				select {
				case <-ctx.Done():
				case <-time.After(takes):
				}
				if _, trusted := leader.LeaseFrom(ctx); takes < time.Minute && !trusted {
					t.Error("the lease is over before the drain is")
				}
				return nil
			}, silent, schedule.WithDrain(30*time.Second))
			time.Sleep(61 * time.Second)
			stop()
			if want := min(takes, 31*time.Second); held != want {
				t.Errorf("an action of %v went on for %v, want %v", takes, held, want)
			}
		})
	}
}

func TestRun_WithDrain_DoesNotWaitForALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		if _, err := newElector(t, store).Acquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		stop := start(t, newElector(t, store), schedule.Every(time.Minute), nothing, silent,
			schedule.WithDrain(time.Hour), schedule.WithRunOptions(leader.WithWaitTime(time.Hour)))
		time.Sleep(61 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Run went on for %v after its context", took)
		}
	})
}

func TestRun_Jitter_IsAtMostHalfThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delays []time.Duration
		stop := start(t, newElector(t, local.New()), schedule.Every(time.Minute), func(ctx context.Context) error {
			fire, _ := schedule.FireTime(ctx)
			delays = append(delays, time.Since(fire))
			return nil
		}, silent, schedule.WithJitter(time.Hour))
		time.Sleep(2 * time.Hour)
		stop()
		if len(delays) < 119 || slices.Max(delays) > 30*time.Second || slices.Max(delays)-slices.Min(delays) < 10*time.Second {
			t.Errorf("%d runs, between %v and %v late; want all, spread over half a minute",
				len(delays), slices.Min(delays), slices.Max(delays))
		}
	})
}

func TestRun_GivesItsOptionsToEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		e := newElector(t, local.New())
		action := func(context.Context) error { n++; return errJob }
		again := schedule.WithRunOptions(leader.WithRetryFailedRun())
		stopOne := start(t, e, schedule.Every(time.Minute), action, silent, again)
		time.Sleep(30 * time.Second)
		stopTwo := start(t, e, schedule.Every(time.Minute), action, silent, again, schedule.WithJitter(time.Minute))
		time.Sleep(61 * time.Second)
		stopOne()
		stopTwo()
		if n != 2 {
			t.Errorf("%d runs, want the failed one to be tried again by the other job", n)
		}
	})
}

func TestNew_ReportsEverythingWrongAtOnce(t *testing.T) {
	e := newElector(t, local.New())
	_, err := schedule.New(e, "", schedule.Every(-1), nil, schedule.WithMissed(9), schedule.WithJitter(-1),
		schedule.WithKeep(-1), schedule.WithDrain(-1), schedule.WithRunOptions(leader.WithLeaseTime(-1)))
	for _, want := range []string{
		"name is empty", "Every(-1ns)", "action is nil", "WithMissed(9)", "WithJitter(-1ns)", "WithKeep(-1ns)", "WithDrain(-1ns)",
		"WithLeaseTime(-1ns)",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if !errors.Is(err, leader.ErrInvalidOption) || !errors.Is(err, leader.ErrInvalidName) {
		t.Errorf("%v wraps neither ErrInvalidOption nor ErrInvalidName", err)
	}
}

func TestNew_RefusesWhatHasNoMeaning(t *testing.T) {
	e := newElector(t, local.New())
	for what, opt := range map[string]schedule.Option{
		"WithKeep": schedule.WithKeep(time.Hour), "WithMissed": schedule.WithMissed(schedule.Skip),
	} {
		if _, err := schedule.New(e, "job", schedule.Delay(time.Minute), nothing, opt); !errors.Is(err, leader.ErrInvalidOption) {
			t.Errorf("%s with a Delay: %v, want ErrInvalidOption", what, err)
		}
	}
	if _, err := schedule.New(e, "job", schedule.Delay(0), nothing); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("no delay: %v, want ErrInvalidOption", err)
	}
	if _, err := schedule.New(e, "job", nil, nothing); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("no schedule: %v, want ErrInvalidOption", err)
	}
	relative := schedule.Func(func(t time.Time) time.Time { return t.Add(time.Minute) })
	if _, err := schedule.New(e, "job", relative, nothing); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("fire times that depend on when one asks: %v, want ErrInvalidOption", err)
	}
	short := []schedule.Option{schedule.WithKeep(time.Minute), schedule.WithJitter(16 * time.Second)}
	if _, err := schedule.New(e, "job", schedule.Every(time.Hour), nothing, short...); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("marks that end while others wait for their jitter: %v, want ErrInvalidOption", err)
	}
	if _, err := schedule.New(nil, "job", schedule.Every(1), nothing); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("no runner: %v, want ErrInvalidOption", err)
	}
	open := schedule.WithRunOptions(leader.WithFailureMode(leader.FailOpenRun))
	if _, err := schedule.New(e, "job", schedule.Every(time.Minute), nothing, open); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("FailOpenRun, which cannot be once for each fire time: %v, want ErrInvalidOption", err)
	}
}
