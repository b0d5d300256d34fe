package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goleader/leader"
)

// Keys of the attributes of log records.
const (
	keyName = "leader.name"
	keyFire = "fire"
	keyErr  = "err"
)

const jobFailed = "the job failed"

// Job is an action with a name and a schedule. [New] makes it.
type Job struct {
	runner leader.Runner
	name   string
	when   Schedule
	action leader.Action
	config config
	clock  clock
}

// New returns a job that r runs under a name. It does no I/O. The error reports everything that is wrong, also what r
// would refuse of the name and the options of the runs. It asks the schedule for its next fire time.
func New(r leader.Runner, name string, when Schedule, action leader.Action, opts ...Option) (*Job, error) {
	j := &Job{runner: r, name: name, when: when, action: action, clock: systemClock{}}
	for _, o := range opts {
		if o.f != nil {
			o.f(&j.config)
		}
	}
	errs := []error{j.config.check(when), checkNext(when), leader.Check(r, name, j.runOptions(time.Unix(0, 0), 0)...)}
	if action == nil {
		errs = append(errs, fmt.Errorf("%w: the action is nil", leader.ErrInvalidOption))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("schedule: job %q: %w", name, err)
	}
	return j, nil
}

// checkNext refuses a schedule whose fire times stand still, or depend on when one asks.
func checkNext(when Schedule) error {
	switch when.(type) {
	case nil, Every, Delay:
		return nil // their rules are those of the options
	}
	now := systemClock{}.now()
	next := when.Next(now)
	if next.IsZero() {
		return nil
	}
	if !next.After(now) {
		return fmt.Errorf("%w: the schedule is broken: after %v comes %v", leader.ErrInvalidOption, now, next)
	}
	if again := when.Next(next.Add(-1)); !again.Equal(next) {
		return fmt.Errorf("%w: the schedule has no fixed fire times, on which nodes could agree: after %v comes %v, "+
			"but after the nanosecond before that comes %v; a fixed rate is an Every",
			leader.ErrInvalidOption, now, next, again)
	}
	return nil
}

// Run makes a job and runs it, see [New] and [Job.Run].
func Run(
	ctx context.Context, r leader.Runner, name string, when Schedule, action leader.Action, opts ...Option,
) error {
	j, err := New(r, name, when, action, opts...)
	if err != nil {
		return err
	}
	return j.Run(ctx)
}

// Name is the name under which the job runs.
func (j *Job) Name() string { return j.name }

// Run runs the job until ctx ends, on the goroutine of the caller, and returns nil when its action has returned. It also
// ends, with nil, after the last fire time. Whatever becomes of a run, the next fire time is waited for; an error says
// that the schedule is broken. Run may be called again, but not concurrently: of two that run at a time, one skips.
func (j *Job) Run(ctx context.Context) error {
	var err error
	if d, ok := j.when.(Delay); ok {
		err = j.repeat(ctx, time.Duration(d))
	} else {
		err = j.follow(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that is how a job is ended
	}
	return err
}

// runOptions are those of the run for a fire time, of which the next one is the given time later.
func (j *Job) runOptions(fire time.Time, period time.Duration) []leader.RunOption {
	var opts []leader.RunOption
	if _, ok := j.when.(Delay); ok {
		return append(opts, j.config.run...)
	}
	keep := j.keep(period)
	if j.config.missed == RunOnce && period > 0 {
		wait := fire.Add(min(period, keep/2)).Sub(j.clock.now())
		opts = append(opts, leader.WithWaitTime(max(wait, 0)))
	}
	opts = append(opts, j.config.run...)
	return append(opts, leader.WithRunKey(runKey(fire), keep))
}

// keep is for how long a fire time stays marked.
func (j *Job) keep(period time.Duration) time.Duration {
	if j.config.keep > 0 {
		return j.config.keep
	}
	return max(minKeep, 2*period)
}

// run asks for the lease, runs the action if it is granted, and tells what became of it. stale is asked when the lease
// has been got, which may have taken long.
func (j *Job) run(ctx context.Context, t Tick, stale func() bool, action leader.Action, opts []leader.RunOption) Tick {
	own, started, done := j.draining(ctx)
	defer done()
	t.Result, t.Err = j.runner.RunIfLeader(own, j.name, func(ctx context.Context) error {
		if stale() {
			t.Missed = true
			return nil
		}
		started.Store(true)
		return action(ctx)
	}, opts...)
	if t.Missed {
		t.Result = leader.RunResult{}
	}
	j.tell(ctx, t)
	return t
}

// draining is the context of a run. It ends with ctx, or, if the action has been started by then, when it has had the
// time to drain.
func (j *Job) draining(ctx context.Context) (own context.Context, started *atomic.Bool, done func()) {
	started = new(atomic.Bool)
	if j.config.drain == 0 {
		return ctx, started, func() {}
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if started.Load() {
			_ = j.clock.pause(own, j.config.drain) // or until the action has returned
		}
		cancel(context.Cause(ctx))
	})
	return own, started, func() {
		stop()
		cancel(nil)
	}
}

// tell logs what an operator should know, and reports.
func (j *Job) tell(ctx context.Context, t Tick) {
	say := func(level slog.Level, text string, err error) { j.log(ctx, level, text, t.Fire, err) }
	switch {
	case t.Missed:
		say(slog.LevelWarn, "fire times were missed, up to this one", nil)
	case t.Err != nil && ctx.Err() == nil:
		say(slog.LevelWarn, "not run: the store could not be asked", t.Err)
	case t.Result.Reason == leader.BackendFailed:
		say(slog.LevelWarn, "not run: the store could not be asked", nil)
	case t.Result.Err != nil && t.Fire.IsZero():
		// With a delay, it was said before the pause.
	case t.Result.Err != nil:
		say(slog.LevelError, jobFailed, t.Result.Err)
	case t.Result.Lost != nil:
		say(slog.LevelWarn, "the job lost its lease", t.Result.Lost)
	}
	if j.config.report != nil {
		j.config.report(ctx, t)
	}
}

func (j *Job) log(ctx context.Context, level slog.Level, text string, fire time.Time, err error) {
	attrs := []slog.Attr{slog.String(keyName, j.name)}
	if !fire.IsZero() {
		attrs = append(attrs, slog.Time(keyFire, fire))
	}
	if err != nil {
		attrs = append(attrs, slog.Any(keyErr, err))
	}
	logger := j.config.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, level, text, attrs...)
}

// jitter is a random time up to d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d + 1)
}
