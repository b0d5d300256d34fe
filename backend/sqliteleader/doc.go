// Package sqliteleader elects on a SQLite file: processes of one machine that open the same file exclude each other,
// without any server. The driver is modernc.org/sqlite, which needs no C compiler.
//
//	b, err := sqliteleader.Open("leader.db", nil)
//
// [Open] gives leader.New a [Backend] with a small file of its own, which its first use creates, with the tables in it;
// [Backend.Close] closes it. Give leases their own file rather than the application's: a long write transaction there
// would stop all renewals. Whoever wants leases inside a database that is open already uses package sqlleader with
// sqlleader.SQLite, the same driver on a handle of one's own.
//
// # Algorithm, clock, limits
//
// They are those of package sqlleader: a row per key or slot, reads before writes, and expiry judged by the machine's
// clock that never steps (Linux) or by its wall clock (elsewhere). Records have a table of their own and end by the wall
// clock; a file from before there were records gets it when it is needed. No network file systems. What releases a key is
// noticed by others within 20 ms or little more.
//
// # Durability
//
// The file is in WAL mode, with synchronous NORMAL: what was acknowledged survives the death of every process, also by
// kill -9. A power cut, or a crash of the kernel, may undo the last acquisitions, renewals and releases, but it ends
// their holders too: nobody goes on trusting a lease that the file has forgotten. What may come back is a row as it was
// some moments before; it is of an earlier boot and therefore taken over once it has been seen unchanged for its lease.
// Fences go on growing by the wall clock, so only a machine that forgets the time as well (no battery behind its clock)
// may grant one twice. [Options.FullSync] is for those: each write then waits for the disk. Acquisition and renewal are
// equally durable in both modes.
//
// # Faults
//
// Another connection that holds the file's write lock, or a disk that is full or failing, gives errors of kind
// Unavailable: when the context ends, or once a call has had its turn among this Backend's writes and has waited 250 ms.
// As soon as that is over, calls succeed again. Losing attempts, Inspect and waiters need no lock and go on meanwhile.
//
// A missing folder, a read-only file and a file that is no database give Misconfigured, and so does a damaged table: the
// first connection has SQLite check both (quick_check), which takes a moment if there are very many records. The file is
// not touched then. An empty file counts as a new one. A row or record whose format is of another major version is left
// as it is.
package sqliteleader
