// Package robfigleader makes a robfig/cron scheduler run its jobs on one of all nodes, once for each fire time.
//
//	c := cron.New()
//	nightly, err := cron.ParseStandard("0 2 * * *")
//	...
//	job, err := robfigleader.Job(ctx, c, elector, "report", nightly, report.Run)
//	...
//	c.Schedule(nightly, job)
//
// [Job] makes a cron.Job of an action, whose context is that of the lease. [Wrapper] is a cron.JobWrapper for jobs that
// know no context. A cron job is told neither its name nor its fire time, so both are given the name, and the schedule once
// more. The run is marked with the fire time, as package schedule does, which says how long marks are kept, what is
// logged, and what the options mean. Which fire times are missed is robfig/cron's own matter.
//
// Times of day are those of schedule.In: what robfig/cron calls for a second time, in the hour that comes twice when
// daylight saving ends, has been run. In the hour that is left out it calls nothing.
//
// The fire times of "@every 5m" are those of schedule.Every, so that all nodes mean the same instants, whenever they were
// started: each period of the wall clock has its run.
package robfigleader
