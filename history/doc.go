// Package history keeps records of runs: who ran what, when, under which fence, and how it ended.
//
//	recorder := history.NewRecorder(sink, nil)
//	defer recorder.Close(ctx)
//	elector, err := leader.New(driver, leader.WithHooks(recorder.Hooks()))
//
// A [Recorder] is an ordinary user of hooks. It never makes a run wait or fail: records go into a bounded queue, and one
// goroutine, which exists only while there is something to do, hands them to a [Sink]. Where the sink is too slow, blocks
// or fails, records are dropped and counted, and the newest are dropped first. One recorder may serve any number of
// electors; hooks of several recorders are joined by [leader.JoinHooks].
//
// Every call of RunIfLeader and every term of a Campaign is a run, also one that was skipped. Its [Record] is handed over
// when it has acquired its lease, as Running, and once more, complete, when it has ended. A process that dies leaves its
// last records Running; they are over once a record of the same key has a greater fence. A lease from Acquire is no run
// and leaves no record. [Options.Omit] says which records are not wanted: a job that many nodes try every second is
// skipped far more often than it runs.
//
// The sinks here are [Memory], [Slog] and [SQL]. Texts in records are short and free of control characters, see [Record],
// so that they can be stored and printed as they are. They may still say what an action's error says: what must not be in
// a history should not be in an error.
package history
