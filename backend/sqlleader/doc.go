// Package sqlleader elects on a table of an SQL database, through any database/sql handle. What differs between
// databases is data: a [Dialect]. There are [PostgreSQL], [MySQL], which is MariaDB's too, and [SQLite]; packages pgleader,
// mysqlleader and sqliteleader put a driver of their own below them, and are what one usually wants.
//
// # Algorithm
//
// There is one row per key; it stays when the lease ends. Every write is one autocommit statement, and no state is bound
// to a connection, so nothing is lost with one. On PostgreSQL and MariaDB one statement acquires: it takes the key if that
// is free, and says who has it if it is not. On PostgreSQL it reads before it writes, so an attempt that loses writes
// nothing, takes no lock, and is not held up by a stranger who has locked the row; on MariaDB it writes nothing either,
// but waits for such a lock, for a second at most. On SQLite and MySQL an attempt reads the row first, which locks
// nothing, and writes only if the key looks free (or is its own), as long as the row is as it was read, by fence, token
// and a counter that every change of the lease moves. An attempt that others were faster than is made at most three
// times.
//
// The token of a lease that was released or abandoned stays in the row as spent, and an attempt with it is refused. On
// PostgreSQL and MariaDB a statement whose context has ended may begin later still, after attempts that were abandoned
// after it; so a row there remembers the last 64 abandoned tokens.
// A fence is the larger of the row's last fence plus one and the clock in microseconds, so it also grows when the
// row was deleted or the table dropped, unless the clock was set back behind the last fence meanwhile, or the deletion fell
// into the very statement that makes the next row.
//
// The slots of a group are rows like others. An attempt reads them all at once, and writes the one that has its token, or
// a free one at random, if it is as it was read. A token is never in two slots, also when attempts with it overlap: on
// SQLite the write looks at the other rows, elsewhere a unique column refuses it.
//
// What the database undoes because of others (serialization failures, deadlocks) is tried again at once, three times in
// all; what is left of an acquisition is backend.ErrHeld. Any isolation level will do.
//
// # Clock
//
// PostgreSQL and MySQL judge by the server's clock, in microseconds since 1970: neither time zones nor the clocks of
// clients matter. It is assumed that the clock of a new primary is not behind that of the old one by more than the
// engine's margin. SQLite has no server, so the machine's clock judges. On Linux that is CLOCK_BOOTTIME, which neither
// steps nor stops in sleep; the row names the boot and the time namespace it was written in. A row of another boot (or of
// another virtual machine) is never judged by its times: it is over once it has been seen unchanged for the lease that its
// holder published, measured by this process's monotonic clock from the first look. What was seen is remembered across
// calls, and noted in the row, so that processes which live shorter than a lease can take over after a restart of the
// machine too. The first election after a crash of the machine therefore takes up to one lease longer.
//
// On other systems, and where /proc cannot be read, SQLite's rows are judged by the wall clock: a step ahead by more than
// the engine's safety margin ends leases early, a step back makes them last longer. Column since is wall time everywhere,
// for people.
//
// # Records
//
// Records are in a second table, whose name ends in _records. Compare-and-set is one statement. Versions are random, so
// none comes back, whatever happens to the record or to the clock. A deleted record is gone; an expired one does not exist
// for any call, and is deleted in time, a few at once, while others are created.
//
// With SQLite their ends are kept in wall time, unlike those of leases: a run key of some days has to outlive a restart
// of the machine, with what is left of its time. So a wall clock that is set ahead ends records early, by as much, and
// one that is set back makes them last longer; a run key needs a TTL with room for that. The time that
// [Backend.GetRecords] tells is the same clock.
//
// # Durability
//
// A lease is as durable as the database's transactions; an acquisition and a renewal are equally so. On PostgreSQL a
// release that keeps nothing does not wait for the disk: after a crash of the server its lease may come back, and then ends
// by its time. With asynchronous replication a failover forgets the last writes, and two holders may trust one lease until
// the older deadline; fences grow nevertheless. [Backend.Advise] warns of settings under which a crash forgets leases.
//
// With SQLite in WAL
// mode and synchronous NORMAL every acknowledged write survives the death of the process, and a power cut may undo the
// last ones. It also ends every process that held a lease, so nobody trusts what was undone, and the machine's next boot
// waits for rows of the last one as described. Fences then keep growing by the wall clock; only a machine that loses its
// time with its power, and the last writes too, may grant a fence again that it has granted before. Such a machine needs
// synchronous FULL. With synchronous OFF a power cut may damage the file.
//
// # Limits
//
// A lease is at least 10 ms. Whether a call may outlive its context depends on the driver; see [Dialect]. PostgreSQL tells
// waiters through package pgleader alone, MySQL tells nobody: the engine polls there, with reads.
//
// A statement that waits for a row which a stranger has locked ends with its context. Nobody else can then take the key
// over either, and a lease that cannot be renewed meanwhile is lost in time.
//
// On SQLite, waits for a lock end with their context if the driver cares (modernc.org/sqlite does, from version 1.61 on),
// but a write to a stalled disk ends with no context. Writes through one Backend take turns inside the process. Somebody
// who holds the file's write lock for longer than the handle's busy timeout makes attempts, renewals and releases fail with
// kind Unavailable; reading and waiting go on in WAL mode. An open file descriptor of the database that other code in this
// process closes drops SQLite's POSIX locks: leave the file alone, and use one SQLite library per process. Network file
// systems are not supported: their locks cannot be trusted, and WAL needs shared memory. Nor is ":memory:", which is one
// database per connection; use package local. Waiters share one poller per Backend, which looks at SQLite's data_version
// every 20 ms and reads the rows that are waited for only when somebody has committed. It keeps one connection while
// anybody waits. A handle of a single connection spares none: there the rows themselves are read.
//
// # Rights
//
// [Backend.Migrate] creates the tables; the statements of [Backend.Schema] do in a migration of one's own. Beyond that
// SELECT, INSERT, UPDATE and DELETE on both tables are needed.
package sqlleader
