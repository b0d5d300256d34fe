package gocronleader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/schedule"
	"github.com/goleader/leader/schedule/gocronleader"
)

const watchdog = 30 * time.Second

var errJob = errors.New("no paper")

// years keeps what a test does within one fire time.
const years = schedule.Every(10 * 366 * 24 * time.Hour)

func newElector(t testing.TB, store *local.Backend, opts ...leader.Option) leader.Elector {
	t.Helper()
	e, err := leader.New(store, append(opts, leader.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newLocker(t testing.TB, r leader.Runner, opts ...leader.RunOption) *gocronleader.Locker {
	t.Helper()
	l, err := gocronleader.NewLocker(r, years, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// counts is a monitor.
type counts struct {
	mu sync.Mutex
	by map[gocron.JobStatus]int
}

func (c *counts) IncrementJob(_ uuid.UUID, _ string, _ []string, status gocron.JobStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[gocron.JobStatus]int)
	}
	c.by[status]++
}

func (c *counts) RecordJobTiming(time.Time, time.Time, uuid.UUID, string, []string) {}

func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.by)
}

// runOnce has a scheduler run a job at once, and returns what its monitor was told, when it was told as much as wanted.
func runOnce(t *testing.T, want string, options []gocron.SchedulerOption, task any) {
	t.Helper()
	monitor := &counts{}
	options = append(options, gocron.WithMonitor(monitor), gocron.WithGlobalJobOptions(
		gocron.WithEventListeners(gocronleader.FailuresTo(monitor))))
	scheduler, err := gocron.NewScheduler(options...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := scheduler.Shutdown(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(task), gocron.WithName("job")); err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	for end := time.Now().Add(watchdog); monitor.String() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the monitor was told %v, want %v", monitor, want)
		}
	}
}

func lockedBy(l gocron.Locker) []gocron.SchedulerOption {
	return []gocron.SchedulerOption{gocron.WithDistributedLocker(l)}
}

func TestLocker_AFireTime_IsRunOnce_AndCountedAsSkippedElsewhere(t *testing.T) {
	store, runs := local.New(), 0
	for _, want := range []string{"map[success:1]", "map[skip:1]", "map[skip:1]"} {
		l := newLocker(t, newElector(t, store))
		runOnce(t, want, lockedBy(l), func() { runs++ })
	}
	if runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
}

func TestLocker_Refusals_SayWhy(t *testing.T) {
	store := local.New()
	one, other := newLocker(t, newElector(t, store)), newLocker(t, newElector(t, store))
	held, err := one.Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	check := func(want leader.SkipReason) {
		t.Helper()
		_, err := other.Lock(t.Context(), "job")
		skipped, ok := errors.AsType[*gocronleader.SkippedError](err)
		if !ok || skipped.Result.Reason != want || skipped.Name != "job" || !errors.Is(err, leader.ErrNotElected) {
			t.Errorf("%v, want it skipped because of %v", err, want)
		}
	}
	check(leader.Contended)
	if _, err := one.Lock(t.Context(), "job"); !errors.Is(err, leader.ErrNotElected) {
		t.Errorf("the same locker again: %v, want skipped", err)
	}
	if another, err := one.Lock(t.Context(), "another"); err != nil {
		t.Errorf("another job: %v", err)
	} else if err := another.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	check(leader.AlreadyRan)
}

// noAnswer is a runner whose store cannot be asked.
type noAnswer struct{}

func (noAnswer) RunIfLeader(context.Context, string, leader.Action, ...leader.RunOption) (leader.RunResult, error) {
	return leader.RunResult{}, leader.ErrUnavailable
}

func TestLocker_AStoreThatCannotBeAsked_IsCountedAsFailed(t *testing.T) {
	l := newLocker(t, noAnswer{})
	_, err := l.Lock(t.Context(), "job")
	if !errors.Is(err, leader.ErrUnavailable) || errors.Is(err, leader.ErrNotElected) {
		t.Errorf("%v, want ErrUnavailable alone", err)
	}
	runOnce(t, "map[fail:1 skip:1]", lockedBy(l), func() { t.Error("ran") })
}

func TestLocker_ThatGotItsLockTooLate_DoesNotRunAFireTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		newMinutely := func() *gocronleader.Locker {
			l, err := gocronleader.NewLocker(newElector(t, store), schedule.Every(time.Minute), leader.WithWaitTime(24*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		held, err := newMinutely().Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		other := newMinutely()
		go func() {
			_, err := other.Lock(t.Context(), "job")
			done <- err
		}()
		time.Sleep(3 * time.Hour) // longer than fire times are marked
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil || errors.Is(err, leader.ErrNotElected) {
			t.Errorf("%v, want an error that says that it is too late", err)
		}
	})
}

func TestTask_RunsUnderTheLease_LongerThanTheLeaseTime(t *testing.T) {
	store := local.New()
	l := newLocker(t, newElector(t, store), leader.WithLeaseTime(2*time.Second))
	runOnce(t, "map[success:1]", lockedBy(l), l.Task("job", func(ctx context.Context) error {
		time.Sleep(3 * time.Second)
		fire, ok := schedule.FireTime(ctx)
		if lease, trusted := leader.LeaseFrom(ctx); !trusted || lease.Info().Name != "job" || !ok || !fire.Before(time.Now()) {
			t.Errorf("trusted lease: %v, for %v", trusted, fire)
		}
		if r, err := newElector(t, store).RunIfLeader(t.Context(), "job", nothing); err != nil || r.Reason != leader.Contended {
			t.Errorf("meanwhile another got %v, %v; want contended", r, err)
		}
		return nil
	}))
}

func nothing(context.Context) error { return nil }

func TestTask_ThatFails_IsCountedAsFailed(t *testing.T) {
	var result leader.RunResult
	e := newElector(t, local.New(), leader.WithHooks(leader.Hooks{
		RunFinished: func(_ context.Context, _ string, r leader.RunResult, _ error) { result = r },
	}))
	l := newLocker(t, e)
	runOnce(t, "map[fail:1]", lockedBy(l), l.Task("job", func(context.Context) error { return errJob }))
	if !errors.Is(result.Err, errJob) {
		t.Errorf("the elector's hooks were told %v, want the job's error", result)
	}
}

func TestTask_ThatLosesItsLease_IsCountedAsFailed(t *testing.T) {
	l := newLocker(t, newElector(t, local.New()), leader.WithMaxHold(2*time.Second))
	runOnce(t, "map[fail:1]", lockedBy(l), l.Task("job", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(watchdog):
			t.Error("the context of the job does not end with the lease")
		}
		return nil
	}))
}

func TestTask_EndsWithItsScheduler(t *testing.T) {
	l := newLocker(t, newElector(t, local.New()))
	scheduler, err := gocron.NewScheduler(lockedBy(l)...)
	if err != nil {
		t.Fatal(err)
	}
	began, ended := make(chan struct{}), make(chan error, 1)
	if _, err := scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(l.Task("job", func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		})), gocron.WithName("job")); err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	<-began
	if err := scheduler.Shutdown(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the scheduler's end", err)
		}
	case <-time.After(watchdog):
		t.Error("the job goes on")
	}
}

func TestTask_WithoutALock_DoesNotRun(t *testing.T) {
	l := newLocker(t, newElector(t, local.New()))
	runOnce(t, "map[fail:1]", nil, l.Task("job", func(context.Context) error {
		t.Error("ran")
		return nil
	}))
}

func TestNewLocker_RefusesWhatCannotWork(t *testing.T) {
	e := newElector(t, local.New())
	for what, newOne := range map[string]func() (*gocronleader.Locker, error){
		"no runner":     func() (*gocronleader.Locker, error) { return gocronleader.NewLocker(nil, years) },
		"no schedule":   func() (*gocronleader.Locker, error) { return gocronleader.NewLocker(e, nil) },
		"no period":     func() (*gocronleader.Locker, error) { return gocronleader.NewLocker(e, schedule.Every(0)) },
		"no fire times": func() (*gocronleader.Locker, error) { return gocronleader.NewLocker(e, schedule.Delay(1)) },
		"no fixed fire times": func() (*gocronleader.Locker, error) {
			return gocronleader.NewLocker(e, schedule.Func(func(t time.Time) time.Time { return t.Add(time.Hour) }))
		},
		"an option of Campaign": func() (*gocronleader.Locker, error) {
			return gocronleader.NewLocker(e, years, leader.WithRequeue())
		},
	} {
		if _, err := newOne(); !errors.Is(err, leader.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", what, err)
		}
	}
}
