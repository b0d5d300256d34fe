package robfigleader

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/schedule"
)

// Job makes a cron.Job of an action, for c and a schedule of it, that runs under a name where r elects this node. It is
// to be added with that very schedule. When ctx ends, the context of an action at work ends, and the job runs no more;
// c.Stop tells when it has returned. A panic of the action is left to cron.Recover. The error says what is refused of the
// arguments.
func Job(
	ctx context.Context, c *cron.Cron, r leader.Runner, name string, when cron.Schedule, action leader.Action,
	opts ...schedule.Option,
) (cron.Job, error) {
	fires := fireTimes(c, when)
	j, err := schedule.New(r, name, fires, action, opts...)
	if err != nil {
		return nil, fmt.Errorf("robfigleader: %w", err)
	}
	return cron.FuncJob(func() { run(ctx, j, fires) }), nil
}

// Wrapper is a cron.JobWrapper that makes jobs run as [Job] does. It is for one job, whose schedule and name it knows: use
// it in a cron.NewChain for that job, not in cron.WithChain. Wrappers that come after it in the chain run with the job.
func Wrapper(
	ctx context.Context, c *cron.Cron, r leader.Runner, name string, when cron.Schedule, opts ...schedule.Option,
) (cron.JobWrapper, error) {
	wrap := func(j cron.Job) (cron.Job, error) {
		return Job(ctx, c, r, name, when, func(context.Context) error {
			j.Run()
			return nil
		}, opts...)
	}
	if _, err := wrap(cron.FuncJob(func() {})); err != nil {
		return nil, err
	}
	return func(j cron.Job) cron.Job {
		wrapped, _ := wrap(j) // the arguments have been checked
		return wrapped
	}, nil
}

// run runs a job for the fire time that has just come.
func run(ctx context.Context, j *schedule.Job, fires schedule.Schedule) {
	if ctx.Err() != nil {
		return
	}
	// cron starts its jobs at their fire time by the wall clock or later, never before.
	if fire, found := schedule.Latest(fires, time.Now().Round(0)); found {
		j.RunFor(ctx, fire)
	}
}

// fireTimes are those of a schedule of c. Times of day are those in c's location, unless the schedule has its own.
func fireTimes(c *cron.Cron, when cron.Schedule) schedule.Schedule {
	switch when := when.(type) {
	case nil:
		return nil
	case cron.ConstantDelaySchedule:
		return schedule.Every(when.Delay)
	case schedule.Every:
		return when
	case *cron.SpecSchedule:
		place, plain := when.Location, *when
		if place == time.Local {
			place = c.Location()
		}
		plain.Location = time.Local // that is, of the time that it is asked about
		return schedule.In(place, &plain)
	}
	return schedule.Func(func(t time.Time) time.Time { return when.Next(t.In(c.Location())) })
}
