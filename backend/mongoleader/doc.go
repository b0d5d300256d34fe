// Package mongoleader is the backend for MongoDB, over the user's own client of mongo-driver/v2.
//
//	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://localhost:27017/?replicaSet=rs0"))
//	b := mongoleader.New(client.Database("jobs"), nil)
//	defer b.Close()
//	elector, err := leader.New(b)
//
// # Algorithm
//
// Each key has one document, which outlives its leases:
//
//	> db.leader.findOne({_id: "nightly"})
//	_id        nightly
//	format     1
//	fence      1764428983123001      grows with every lease
//	token      5SVUAXKIH2V3G…        of the holder; empty while the key is free or kept
//	spent      ZJ4WPCBXG7YQO…        the token that was released or abandoned last
//	since      2025-11-29T15:09:43Z  when it was acquired
//	renewedAt  2025-11-29T15:10:03Z  the time from which the lease, or the time for which the key is kept, counts
//	leaseMs    30001                 how long that is; 0 if released
//	renewals   2
//	owner      web-1:4711:k3s9
//	metadata   {"zone":"a"}
//
// Acquiring is one findAndModify on condition that the lease is over; renewing, releasing and abandoning are one update
// each, and looking is one aggregate. A losing attempt takes that look as a second round trip, learns the holder, and
// writes nothing. A renewal that asks for less than what is left takes a second update, and breaking takes a look before
// it. The first lease of a key takes three round trips more: an upsert may not judge by the server's clock, so that a
// document is created free and then taken.
//
// Keys are strings, compared byte by byte, which takes the simple collation that collections have by default. In a
// collection with another one a document that was found for a key it does not have is an error. [Backend.Migrate] makes
// the collections, and is optional.
//
// # Groups
//
// The slots of a group are documents with keys such as nightly#0. An attempt reads all of them at once, in one round trip,
// and takes one of the free ones in another. A unique index on the token keeps attempts that overlap from having two
// slots with one token; the first attempt of a [Backend] creates it unless Migrate has, and so does one that finds slots
// without a document, as after the collection was dropped. With free slots, a term in a group of 10 takes about 1.6
// times as long as one of a single lease, in a group of 100 about 4 times.
//
// # Records
//
// Candidates, run keys and the like are documents of a second collection, leader_records, with a random version. Who reads
// a set deletes what has expired in it.
//
// # Clock
//
// The server's clock alone decides: leases are begun by $currentDate, which is the primary's clock, and judged by $$NOW.
// No instant of a client is ever sent. Times are in whole ms; a lease is stored a millisecond longer than asked for, so
// that this never makes it shorter. A step of the server's clock moves the ends of leases as much, in a failover too, if
// the new primary's clock differs. In a sharded cluster $$NOW is the clock of the router: there the clocks of all routers
// and of the shard's primary have to agree within the safety margin, and the collection itself must not be sharded,
// because of its unique index.
//
// # Fence
//
// A document begins at the server's time in µs, and each lease adds 1. So the fence also grows when the document was
// deleted or the collection dropped. It does not if the server's clock is behind at that moment, and it may repeat if the
// document is deleted between the request for the server's time and the creation that uses it, or in the same
// millisecond.
//
// # Durability
//
// Acquiring, renewing, keeping and records wait for a majority that has the write in its journal, and reads go to the
// primary, whatever the client or its URI asks for. A primary that has lost its majority can therefore grant and renew
// nothing. A release waits for the primary alone: if a failover forgets it, the lease goes on until it ends by itself. A
// standalone server forgets with its disk. [Backend.Advise] warns of one, of arbiters, and of a storage engine that keeps
// nothing.
//
// # Waiting
//
// Where the deployment has change streams, which replica sets and sharded clusters have, a release wakes whoever waits:
// all waiters and watchers of a [Backend] share one stream, and one connection. Where it has none, or the user must not
// open one, [Backend.AwaitRelease] and [Backend.Watch] say so by [errors.ErrUnsupported], and package leader polls with a
// look, which writes nothing. The deployment is asked when somebody waits.
//
// # Writing under a fence
//
// [Fenced] narrows the filter of an update so that no former leader overwrites what a later one has written, on any
// deployment. [Backend.Guard], in a transaction, lets it commit only while the lease has its key; it alone takes part in a
// transaction of the caller. [History] is a sink of package history.
//
// # Limits
//
// A TTL is between 10 ms and 10 years. The driver ends calls with their context, also over a connection that is silent,
// and bounds them at the server by the context's deadline. It repeats a write whose connection broke (retryWrites), which
// is harmless here: documents know the token, or the version.
//
// # Permissions
//
// It needs MongoDB 4.4, as the driver does. The role readWrite on the database is enough; the actions that it uses there
// are find, insert, update and remove, for groups and Migrate createIndex, createCollection and listCollections, and to
// wait changeStream. Without the last waiters poll. With serverStatus on the cluster Advise knows the storage engine.
//
// # Tests
//
// The tests of this module run on mongo-java-server, another implementation of MongoDB's protocol, which is a single
// node without transactions, change streams, write concerns and access control. So what a replica set does with the
// concerns is MongoDB's word. The code between a change stream and the waiters is tested with events that the test makes
// itself, and the pipeline of the stream with documents that are made like events; the condition of Guard is tested
// without a transaction. Nothing here was run on a sharded cluster. With LEADER_MONGO_URL set to the URL of a replica set
// the tests use that, and include change streams and transactions.
package mongoleader
