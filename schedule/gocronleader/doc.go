// Package gocronleader makes a gocron scheduler run its jobs on one of all nodes.
//
//	locker, err := gocronleader.NewLocker(elector, schedule.Every(5*time.Minute))
//	...
//	scheduler.NewJob(
//		gocron.DurationJob(5*time.Minute),
//		gocron.NewTask(locker.Task("report", report.Run)),
//		gocron.WithName("report"),
//		gocron.WithDistributedJobLocker(locker),
//		gocron.WithEventListeners(gocronleader.FailuresTo(monitor)),
//	)
//
// # Locker
//
// A lock that is released when the job ends excludes runs at the same time, and nothing else: three nodes that come to a
// short job one after the other run it three times. gocron tells a locker the name of the job and not its fire time. A
// [Locker] therefore has the schedule itself, and marks each run with the fire time to which the call belongs, so that it
// is begun once on all nodes. For a job by cron expression give it the same expression, parsed by robfig/cron, which is
// what gocron uses:
//
//	every5, err := cron.ParseStandard("*/5 * * * *")
//
// One with times of day goes through schedule.In, with the location of the scheduler: robfig/cron is due twice in the hour
// that comes twice. Jobs of one Locker need names of their own, by gocron.WithName: by default gocron names a job after
// its function, which is the same for all Tasks.
//
// For a DurationJob give it schedule.Every with the same duration. The nodes may have been started at any time: each
// period of the wall clock has its run. Nodes whose ticks would stand at the very border of two periods stay with the
// period with which they began. A job at random intervals has no fire times, and gains nothing from a Locker.
//
// A job that is longer than its lease keeps it: the lease is renewed until the job ends. But gocron hands its jobs its own
// context. [Locker.Task] hands them the one of the lease, which ends when the lease is lost, and makes a lost lease the
// error of the job.
//
// # What gocron's monitor is told
//
// A refused lock is counted as skipped, whether others had the run or the store could not be asked. The error tells: it
// is a [*SkippedError] in the first case. [FailuresTo] has the second one counted as failed as well. A job that failed,
// or lost its lease, is counted as failed if it is a Task.
//
// # Elector
//
// An [Elector] leads as a whole: the jobs of the scheduler run on the node that leads, until it stops or dies. There is no
// run key then, so a tick may be run by two leaders, one after the other, and one that comes while nobody leads is not
// run. gocron asks a Locker only where there is no Elector.
package gocronleader
