// Package schedule runs a job once for each of its fire times, on one of all nodes that have the same schedule.
//
//	err := schedule.Run(ctx, elector, "report", schedule.Every(time.Minute), func(ctx context.Context) error {
//		return report.Run(ctx)
//	})
//
// A [Schedule] is anything with a method Next, such as the cron expressions of any parser. [Every] is a fixed rate: the
// multiples of a period on the wall clock, so that all nodes mean the same instants. [Delay] is a pause after each run.
// [New] makes a [Job], and reports everything that is wrong with it; [Job.Run] runs it until its context ends.
//
// # Once per fire time
//
// The fire time is the key of the run ([leader.WithRunKey]), whatever the clocks of the nodes say when they come to it.
// A node whose clock is ahead runs the fire time early, and for the others it has been done. A node that dies in a run
// leaves the mark behind: a fire time is begun at most once. The marks are kept for two hours, or for two periods if
// that is longer, see [WithKeep], and half of that is how far clocks may differ, or be set back. A fire time that is
// older than that half when its lease has been got at last is not begun. The job needs a backend that keeps records.
//
// A name is led by one run at a time, on all nodes together. The fire times that come while a run goes on are missed.
//
// # What is missed
//
// A fire time is run up to a minute late, if no later one has come. Older ones, those of a suspended laptop, of a clock
// that was set ahead, and of a run that was longer than the period, are missed. [Skip], the default, leaves them out.
// [RunOnce] makes up for the newest of them, once, as soon as it can. Fire times before the start are nobody's.
//
// Whoever wants that a node which dies costs no fire time but its own lets the nodes wait for its lease: give the runs
// leader.WithWaitTime, or use RunOnce, with which they wait until the next fire time.
//
// # Wall clocks
//
// Waiting looks at the wall clock every ten seconds, since timers stand still while a machine is suspended, and know
// nothing of a clock that is set. A clock that is set back comes to its fire times again, and finds that they have been
// run. Daylight saving is the matter of a schedule's Next: [Every] knows no time zones, and so no such hour. Parsers of
// cron expressions have their own views of the hours that come twice or not at all; [In] has each time of day come once.
//
// # Other schedulers
//
// Modules gocronleader and robfigleader do the same for jobs of gocron and of robfig/cron. There is none for the scheduler
// of asynq (0.26): the cron inside is its own, and the function that it calls before it enqueues a task cannot refuse
// to. Either enqueue the tasks in a job of this package, or let one node have such a scheduler at all, a new one for each
// term of leader.Elector's Campaign, since it cannot be started again. asynq.Unique, or a task id made of the
// [FireTime], keeps two leaders in a row from enqueuing a tick twice.
package schedule
