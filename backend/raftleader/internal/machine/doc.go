// Package machine is the state that the log of a raftleader cluster builds: leases, records and the cluster's time.
//
// A [Machine] is deterministic: its state follows from the commands that were applied, in their order, and from nothing
// else. It does no I/O and reads no clock. All times are whole microseconds.
//
// # Time
//
// Each command carries the time at which the raft leader proposed it (At), by a clock that goes on from the time of the
// log and not from any wall clock. The machine's time ([Machine.Now]) is the greatest At of all applied commands, so it
// never goes back. A lease has ended once the machine's time has reached its end.
//
// A reader, or [Machine.Foresee], judges by a later time than that of the log, which is lost with the raft leader: a
// lease that a reader found expired could then be renewed. So whoever answers by a time at which something has ended
// that the log does not know to have ended ([Machine.Due]) commits a [Tick] first. Foresee sees to that itself.
//
// # Fence
//
// A fence is the epoch of the cluster, a wall time that its first command carried, plus the index of the log entry that
// granted the lease. Versions of records are built likewise. So both also grow over a cluster that lost everything.
//
// # Memory
//
// What is known of a free lease, its spent token, is dropped an hour after its end, by the machine's time, or when 65,536
// others have ended since; a record is dropped at its end.
package machine
