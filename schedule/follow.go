package schedule

import (
	"context"
	"fmt"
	"time"
)

const (
	// slice is how long a wait goes without looking at the wall clock.
	slice = 10 * time.Second
	// late is how late a fire time is still in time.
	late = time.Minute
)

// follow runs the job at the fire times of its schedule, until there is none or ctx ends.
func (j *Job) follow(ctx context.Context) error {
	last := j.clock.now() // what is not after it has been dealt with
	free := last          // until then, this node was busy with a run
	for {
		next := j.when.Next(last)
		switch {
		case next.IsZero():
			return nil
		case !next.After(last):
			return fmt.Errorf("schedule: job %q: the schedule is broken: after %v comes %v", j.name, last, next)
		}
		now := j.clock.now()
		if now.Before(last) {
			// The clock was set back. Fire times that come again have been marked, if they were run.
			last, free = now, now
			continue
		}
		if now.Before(next) {
			if err := j.clock.pause(ctx, min(next.Sub(now), slice)); err != nil {
				return err
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fire := j.latest(last, now)
		if j.due(ctx, fire, now, !fire.After(free)) {
			free = j.clock.now()
		}
		last = fire
	}
}

// latest is the newest fire time after last that is not after now; there is one.
func (j *Job) latest(last, now time.Time) time.Time {
	fire, found := Latest(j.when, now)
	if found && fire.After(last) {
		return fire
	}
	return j.when.Next(last)
}

// due deals with a fire time that has come, while this node was busy or not. It reports whether the action has been run.
func (j *Job) due(ctx context.Context, fire, now time.Time, busy bool) (ran bool) {
	if !j.wanted(now.Sub(fire), j.keep(periodOf(j.when, fire)), busy) {
		j.tell(ctx, Tick{Name: j.name, Fire: fire, Missed: true})
		return false
	}
	t := j.RunFor(ctx, fire)
	return t.Result.Outcome != 0 && !t.skipped()
}

// RunFor runs the job for one fire time that has come, as [Job.Run] does at each, and returns what became of it. It is for
// schedulers that wait for fire times by themselves. A [Delay] has none.
func (j *Job) RunFor(ctx context.Context, fire time.Time) Tick {
	t := Tick{Name: j.name, Fire: fire}
	period := periodOf(j.when, fire)
	if err := j.clock.pause(ctx, jitter(min(j.config.jitter, period/2))); err != nil {
		t.Err = fmt.Errorf("schedule: job %q: %w", j.name, context.Cause(ctx))
		return t
	}
	tooOld := func() bool { return stale(j.clock.now().Sub(fire), j.keep(period)) }
	if tooOld() {
		t.Missed = true
		j.tell(ctx, t)
		return t
	}
	return j.run(ctx, t, tooOld, func(ctx context.Context) error {
		return j.action(WithFireTime(ctx, fire))
	}, j.runOptions(fire, period))
}

// stale reports whether the mark of a fire time of that age may be gone: nobody could tell whether it has been run.
func stale(age, keep time.Duration) bool { return age > keep/2 }

// wanted reports whether a fire time is to be run at that age.
func (j *Job) wanted(age, keep time.Duration, busy bool) bool {
	switch {
	case stale(age, keep):
		return false
	case j.config.missed == RunOnce:
		return true
	}
	return !busy && age <= late
}
