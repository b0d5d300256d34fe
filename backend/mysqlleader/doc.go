// Package mysqlleader elects on a table of MariaDB or MySQL, over the user's own database/sql handle of
// github.com/go-sql-driver/mysql.
//
//	db, err := sql.Open("mysql", "app:secret@tcp(localhost:3306)/app?timeout=5s&readTimeout=5s")
//	…
//	b := mysqlleader.New(db, &mysqlleader.Options{CreateTable: true})
//	defer b.Close()
//	elector, err := leader.New(b)
//
// # Algorithm
//
// It is that of package sqlleader: one row per key or slot, every write one autocommit statement, no state that is bound
// to a connection. On MariaDB, from 10.5 on, an attempt is one upsert that returns the row. One that loses writes nothing,
// but locks the row for that moment. On MySQL it reads the row, and writes only if the key looks free. All isolation
// levels, time zones and SQL modes give the same results, and so do clientFoundRows, parseTime, loc and interpolateParams
// in the DSN. Only in MariaDB's mode EMPTY_STRING_IS_NULL nothing can be acquired.
//
// The tables are made by [sqlleader.Backend.Migrate], by [Options].CreateTable, or by migrations of one's own, see
// [sqlleader.Backend.Schema]. A fence also grows over a deleted row, and a truncated or dropped table.
//
// # Clock
//
// The server's clock alone decides, in microseconds since 1970, as it is at the start of a statement: one that then waits
// for the row grants no more time than it was asked for. No time of the client is sent. A step of the server's clock moves
// the ends of leases as much, in a failover too, if the new primary's clock differs.
//
// # Durability
//
// With innodb_flush_log_at_trx_commit = 1, the default, what was acknowledged survives the death of the server, its
// machine's included. A server with a binary log needs sync_binlog = 1 for that too, which is not MariaDB's default: it
// undoes what the log has lost. [sqlleader.Backend.Advise] warns of other values. What a replica has not received is
// forgotten by a failover to it. Until its end a forgotten lease is held by somebody who still trusts it, while another
// one may acquire; the fence tells them apart. Semi-synchronous replication makes that rare, and not impossible, as the
// primary goes on alone after its time-out.
//
// Nodes of a Galera cluster that are written to at once refuse what others were faster with, as a deadlock, which is
// understood here; that was not tried. A server that is read-only is Unavailable, and the error says what to do. The DSN
// parameter rejectReadOnly has the driver leave it, so that after a failover a handle finds the new primary.
//
// # Waiting
//
// The server tells nobody that a lease ended. Package leader looks at the row instead, every 2 s or more often, which
// locks nothing.
//
// # Limits
//
// A TTL is at least 10 ms. A call returns when its context ends, also on a silent connection, which the driver gives up.
// Its statement may go on at the server, or begin later: a token that was abandoned is refused then, as long as it is among
// the key's last 64. A statement that waits for a row which a stranger has locked ends after a second on MariaDB; MySQL
// needs innodb_lock_wait_timeout=1 in the DSN for that. Until then it occupies one of the server's connections.
//
// Set timeout and readTimeout in the DSN. A handle also makes connections for calls that wait for one, and only these
// settings end the attempt to make one over a silent network. Give the handle room for more than one connection, and
// keep as many idle ones as are used at a time (SetMaxIdleConns; the default is 2), or connections are made, and the
// statements prepared in them, over and over.
//
// MySQL itself was not run: the statements that it gets were, on MariaDB 10.11.
//
// # Rights
//
// SELECT, INSERT, UPDATE and DELETE on both tables, and CREATE to make them.
package mysqlleader
