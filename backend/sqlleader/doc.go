// Package sqlleader elects on a table of an SQL database, through any database/sql handle. What differs between
// databases is data: a [Dialect]. The one here is [SQLite]; package sqliteleader opens a file of its own with it.
//
// # Algorithm
//
// There is one row per key; it stays when the lease ends. Every write is one autocommit statement, prepared once per
// connection, and no state is bound to a connection. An attempt reads the row first, which locks nothing, and writes
// only if the key looks free (or is its own): an upsert that applies only while the row still is as it was read, by
// fence, token and a counter that every change of the lease moves. A losing attempt therefore writes nothing and takes
// no lock. An attempt that loses that race reads again, at most three times.
//
// The token of a lease that was released or abandoned stays in the row as spent, and an attempt with it is refused.
// A fence is the larger of the row's last fence plus one and the wall clock in microseconds, so it also grows when the
// row was deleted or the table dropped, unless the wall clock was set back behind the last fence meanwhile.
//
// The slots of a group are rows like others. An attempt reads them all at once, and writes the one that has its token, or
// a free one at random, by the same upsert, which then also requires that no other row of the group has the token or has
// it as spent. So a token is never in two slots, also when attempts with it overlap.
//
// Writes through one Backend to SQLite, which has a single writer, take turns inside the process, so that they do not
// sleep in SQLite's busy handler because of each other.
//
// # Clock
//
// SQLite has no server, so the machine's clock judges. On Linux that is CLOCK_BOOTTIME, which neither steps nor stops in
// sleep; the row names the boot and the time namespace it was written in. A row of another boot (or of another virtual
// machine) is never judged by its times: it is over once it has been seen unchanged for the lease that its holder
// published, measured by this process's monotonic clock from the first look. What was seen is remembered across calls,
// and noted in the row, so that processes which live shorter than a lease can take over after a restart of the machine
// too. The first election after a crash of the machine therefore takes up to one lease longer.
//
// On other systems, and where /proc cannot be read, the wall clock judges: a step ahead by more than the engine's safety
// margin ends leases early, a step back makes them last longer. Column since is wall time everywhere, for people.
//
// # Records
//
// Records are in a second table, whose name ends in _records. Compare-and-set is one statement. Versions are random, so
// none comes back, whatever happens to the record or to the clock. A deleted record is gone; an expired one does not exist
// for any call, and is deleted in time, a few at once, while others are created.
//
// Their ends are kept in wall time, unlike those of leases: a run key of some days has to outlive a restart of the
// machine, with what is left of its time. So a wall clock that is set ahead ends records early, by as much, and one that
// is set back makes them last longer; a run key needs a TTL with room for that. The time that [Backend.GetRecords] tells
// is the same clock.
//
// # Durability
//
// A lease is as durable as the handle's transactions; an acquisition and a renewal are equally so. With SQLite in WAL
// mode and synchronous NORMAL every acknowledged write survives the death of the process, and a power cut may undo the
// last ones. It also ends every process that held a lease, so nobody trusts what was undone, and the machine's next boot
// waits for rows of the last one as described. Fences then keep growing by the wall clock; only a machine that loses its
// time with its power, and the last writes too, may grant a fence again that it has granted before. Such a machine needs
// synchronous FULL. With synchronous OFF a power cut may damage the file.
//
// # Limits
//
// A lease is at least 10 ms. Waits for a lock end with their context if the driver cares (modernc.org/sqlite does, from
// version 1.61 on), but a write to a stalled disk ends with no context, hence Limits.Blocking. Somebody who holds
// the file's write lock for longer than the handle's busy timeout makes attempts, renewals and releases fail with kind
// Unavailable; reading and waiting go on in WAL mode. An open file descriptor of the database that other code in this
// process closes drops SQLite's POSIX locks: leave the file alone, and use one SQLite library per process.
//
// Network file systems are not supported: their locks cannot be trusted, and WAL needs shared memory. Nor is ":memory:",
// which is one database per connection; use package local.
//
// Waiters share one poller per Backend, which looks at SQLite's data_version every 20 ms and reads the rows that are
// waited for only when somebody has committed. It keeps one connection while anybody waits. A handle of a single
// connection spares none: there the rows themselves are read.
package sqlleader
