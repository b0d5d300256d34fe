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
	for ctx.Err() == nil {
		t := j.run(ctx, time.Time{}, func(own context.Context) error {
			err := j.action(own)
			if err != nil {
				j.log(own, slog.LevelError, jobFailed, time.Time{}, err) // the pause may be long
			}
			j.rest(ctx, own, delay)
			return err
		}, opts)
		if t.Err == nil && (!t.skipped() || t.Result.Waited >= shortWait) {
			continue
		}
		if err := j.clock.pause(ctx, min(delay, turn)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rest pauses until the next run, or until the job ends or its lease does.
func (j *Job) rest(ctx, own context.Context, delay time.Duration) {
	resting, cancel := context.WithCancel(own)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // own may have time to drain, which a pause does not need
	_ = j.clock.pause(resting, delay+jitter(j.config.jitter))
}
