// Package pgleader is the backend for PostgreSQL, over the user's own pgx pool.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db.internal/app")
//	...
//	b := pgleader.New(pool, nil)
//	defer b.Close()
//	if err := b.Migrate(ctx); err != nil { // or the statements of Schema, in migrations of your own
//		return err
//	}
//	elector, err := leader.New(b)
//
// The table, the statements and what they promise are those of package sqlleader with its dialect for PostgreSQL 12 and
// later. What this package adds is told below: renewals that do not depend on the pool, waiters and watchers that are
// notified, and calls that end with their context.
//
// # Connections
//
// Statements run on the pool, in the pool's own QueryExecMode. Beside it a Backend owns at most two connections, made
// by the pool's configuration with its hooks. Their application_name ends in leader-keep and leader-listen.
//
// The first is for renewals and releases, so that an application which uses up the pool loses no lease. It is opened by
// the first of them and replaced after the pool's MaxConnLifetime. While it is busy they use the pool if that has a free
// connection, and else whichever is free first. It never waits for a locked row for more than 10 ms: who wants a row that
// a stranger, or a transaction with [Backend.Guard], has locked goes on waiting on the pool, and holds up no other lease.
// If the connection has ended, a renewal is sent again on another.
//
// The second listens, while anybody waits or watches and for half a minute after. It is kept beyond MaxConnLifetime.
//
// # Waiting and watching
//
// The end of a lease by a release, an abandoned attempt or a break sends a notification, on a channel that is named as the
// table. Tables of that name in several schemas share it, but wake only their own waiters. An expiry, and the end of a
// key that is kept, send none; package leader knows when they are due.
//
// An acquisition sends one only while somebody watches, since commits with a notification wait for each other in the
// whole database. The releases do so too, but their commits do not wait for the disk. A watcher shows that it is there by
// an exclusive advisory lock, which acquirers try to share. One session has it for all; when that goes, another watcher
// takes the lock within about a second, and all watchers look at their keys.
//
// A waiter whose connection is lost gets an error, and package leader polls. A watcher opens another connection.
//
// # Contexts
//
// Every call ends with its context, also on a connection that answers no more. pgx then asks the server to cancel the
// statement, and closes the connection by itself, in up to 15 s if the server is silent. A statement that was given up may
// still be applied a moment later; the row remembers the tokens of abandoned attempts, so that it opens no term.
//
// # Poolers
//
// The owned connections need a server, or a pooler that gives each client a session of its own: in transaction mode
// notifications get lost and advisory locks stay behind. There, use package sqlleader with pgx's database/sql adapter and
// default_query_exec_mode=exec: its waiters poll, and nothing of it is bound to a connection.
package pgleader
