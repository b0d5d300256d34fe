package gocronleader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/schedule"
)

// Locker lets one node run a job at each of its fire times. It is for all jobs of one schedule; their names tell them
// apart. All methods may be called concurrently.
type Locker struct {
	runner leader.Runner
	opts   []leader.RunOption
	ticks  ticks

	mu    sync.Mutex
	locks map[string]*lock // held ones, by name
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a locker for jobs that are due by a schedule. The options are those of each run; the run key is the
// locker's own. It does no I/O; the error says what r would refuse.
func NewLocker(r leader.Runner, when schedule.Schedule, opts ...leader.RunOption) (*Locker, error) {
	l := &Locker{runner: r, opts: slices.Clone(opts), ticks: ticks{when: when}, locks: make(map[string]*lock)}
	if _, err := l.job("job", func(context.Context) error { return nil }); err != nil {
		return nil, fmt.Errorf("gocronleader: new locker: %w", err)
	}
	if _, ok := when.(schedule.Delay); ok {
		return nil, fmt.Errorf("gocronleader: new locker: %w: a Delay has no fire times", leader.ErrInvalidOption)
	}
	return l, nil
}

// job is what runs an action for a fire time. Its logger would say what gocron is told as well.
func (l *Locker) job(name string, action leader.Action) (*schedule.Job, error) {
	return schedule.New(l.runner, name, l.ticks.when, action,
		schedule.WithRunOptions(l.opts...), schedule.WithLogger(slog.New(slog.DiscardHandler)))
}

// Lock gets the lease of a job, and marks its fire time as run. The error is a [*SkippedError] if others have the run;
// else the store could not be asked, or the lease came too late, when marks of the fire time may be gone. ctx governs the
// acquisition, and the context of a [Locker.Task].
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	fire, found := l.ticks.fire(name, time.Now())
	if !found {
		return nil, fmt.Errorf("gocronleader: lock %q: the schedule has no fire time yet", name)
	}
	k := &lock{locker: l, name: name}
	k.held, k.unlocked, k.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	job, err := l.job(name, k.hold)
	if err != nil {
		return nil, fmt.Errorf("gocronleader: lock %q: %w", name, err)
	}
	go func() {
		defer close(k.done)
		k.tick = job.RunFor(ctx, fire)
	}()
	select {
	case <-k.held:
		return k, nil
	case <-k.done:
	}
	switch {
	case k.tick.Err != nil:
		return nil, fmt.Errorf("gocronleader: lock %q: %w", name, k.tick.Err)
	case k.tick.Missed:
		return nil, fmt.Errorf("gocronleader: lock %q: too late for %s", name, fire.Format(time.RFC3339))
	}
	return nil, &SkippedError{Name: name, Fire: fire, Result: k.tick.Result}
}

// Task is action as a function for gocron.NewTask, in a job of that name that is locked by l. The context of action is
// that of the lease, ends also when gocron's does, and carries the fire time. A lost lease is an error of the job.
func (l *Locker) Task(name string, action leader.Action) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		l.mu.Lock()
		k := l.locks[name]
		l.mu.Unlock()
		if k == nil {
			return fmt.Errorf("gocronleader: task %q: %w: no job of that name has been locked", name, leader.ErrNotElected)
		}
		k.failure = leader.ErrNoReturn
		k.failure = under(ctx, k.ctx, action)
		return k.failure
	}
}

// under runs action under a lease, until the job's own context ends as well.
func under(job, leased context.Context, action leader.Action) error {
	ctx, cancel := context.WithCancelCause(leased)
	defer cancel(nil)
	defer context.AfterFunc(job, func() { cancel(context.Cause(job)) })()
	err := action(ctx)
	if l, ok := leader.LeaseFrom(leased); !ok && l != nil && err == nil {
		if lost := l.Err(); !errors.Is(lost, leader.ErrReleased) {
			return lost
		}
	}
	return err
}

// lock is a run that waits for gocron to be done with the job.
type lock struct {
	locker *Locker
	name   string

	held     chan struct{}   // closed when the lease is held
	ctx      context.Context //nolint:containedctx // of the lease, which Task hands on
	failure  error           // of the Task, for the result
	unlocked chan struct{}   // closed by Unlock
	once     sync.Once

	done chan struct{} // closed when the run has ended
	tick schedule.Tick
}

// hold is the action of the run.
func (k *lock) hold(ctx context.Context) error {
	k.ctx = ctx
	k.locker.mu.Lock()
	k.locker.locks[k.name] = k
	k.locker.mu.Unlock()
	close(k.held)
	<-k.unlocked
	return k.failure
}

// Unlock ends the run. It returns why its lease was lost, if it was. The end of ctx does not cut it short: the store must
// be told, for which the lease has at most five seconds.
func (k *lock) Unlock(context.Context) error {
	k.once.Do(func() {
		k.locker.mu.Lock()
		if k.locker.locks[k.name] == k {
			delete(k.locker.locks, k.name)
		}
		k.locker.mu.Unlock()
		close(k.unlocked)
	})
	<-k.done
	return k.tick.Result.Lost
}

// SkippedError says that a lock was refused because others have the run, or had it.
type SkippedError struct {
	Name   string
	Fire   time.Time
	Result leader.RunResult // why
}

// Error says which run was refused, and why.
func (e *SkippedError) Error() string {
	return fmt.Sprintf("gocronleader: lock %q for %s: %v", e.Name, e.Fire.Format(time.RFC3339), e.Result)
}

// Is matches leader.ErrNotElected.
func (e *SkippedError) Is(target error) bool { return target == leader.ErrNotElected }
