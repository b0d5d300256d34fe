package schedule

import (
	"context"
	"log/slog"
	"time"

	"github.com/goleader/leader"
)

const (
	// turn is how long a node waits for its turn before it asks anew, and the longest pause after a failure.
	turn = time.Minute
	// shortWait is what an attempt takes at least that needs no pause after it. Users may set another wait time.
	shortWait = time.Second
)

// repeat runs the job with a pause after each run, which belongs to the run.
func (j *Job) repeat(ctx context.Context, delay time.Duration) error {
	opts := append([]leader.RunOption{leader.WithWaitTime(turn)}, j.runOptions(time.Time{}, 0)...)
	never := func() bool { return false }
	for ctx.Err() == nil {
		var left time.Duration // of the pause, if the lease ended before it
		t := j.run(ctx, Tick{Name: j.name}, never, func(own context.Context) error {
			err := j.action(own)
			if err != nil {
				j.log(own, slog.LevelError, jobFailed, time.Time{}, err) // the pause may be long
			}
			left = j.rest(ctx, own, delay)
			return err
		}, opts)
		if t.Err != nil || t.skipped() && t.Result.Waited < shortWait {
			left = min(max(delay, shortWait), turn)
		}
		if err := j.clock.pause(ctx, left); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rest pauses until the next run, or until the job ends or its lease does. It returns what is left of the pause.
func (j *Job) rest(ctx, own context.Context, delay time.Duration) (left time.Duration) {
	resting, cancel := context.WithCancel(own)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // own may have time to drain, which a pause does not need
	delay += jitter(j.config.jitter)
	began := time.Now()
	if err := j.clock.pause(resting, delay); err != nil {
		return max(0, delay-time.Since(began))
	}
	return 0
}
