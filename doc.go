// Package leader runs work on one node at a time.
//
// An [Elector] decides, through a store that the nodes share, which of them leads under a name. Wrap a job in
// RunIfLeader and it runs on one node only:
//
//	elector, err := leader.New(redisleader.New(client, nil))
//	...
//	result, err := elector.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
//		return report.Run(ctx)
//	})
//
// An error from RunIfLeader means that the action did not run. Once it ran, everything is in the result; [RunResult.OK]
// asks whether it ran under a lease that lasted, and succeeded.
//
// # What is promised
//
// The right to lead is a lease. It ends at the store unless it is renewed, and it is renewed while the action runs. The
// holder trusts it until the trust deadline: the local instant before the last successful request was sent, plus the
// lease time, minus a safety margin. At that instant the action's context is over, with cause [ErrLeaseLost], whether or
// not the store can be reached, and before the store may give the lease to another. Every check of that context, of
// [LeaseFrom] and of [Lease.Err] reads the clock first, so that it also says lost in a process that was stopped and
// continued.
//
// An action that ignores its context can still work on after that, as nothing can stop it from outside. For its effects
// there is the fence: [LeaseInfo] carries a number that is greater than that of every earlier lease of the name. A
// store that remembers the largest fence it has seen, and refuses a smaller one, refuses such a late write.
//
// Assumed is that the store keeps what it acknowledged, that its clock jumps by less than the safety margin, and that
// the rates of clocks agree within 0.1 %.
//
// # Choosing a call
//
// RunIfLeader is for jobs: it tries once, or for a bounded wait, and skips if another node leads. Campaign is for
// services: it waits as long as its context lives, leads, and campaigns again when a lease was lost. Acquire hands the
// lease out for everything else. State and Watch tell who leads.
//
// [NewGroup] elects several leaders per name, each in a slot. [NewStrategic] elects, among enrolled candidates, the one
// that a strategy prefers. [WithRunKey] makes a run happen once on all nodes.
//
// Electors start nothing when they are made, own no goroutine while idle, and need no Close.
package leader
