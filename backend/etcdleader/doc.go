// Package etcdleader is the backend for etcd, over the user's own client (go.etcd.io/etcd/client/v3).
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
//	...
//	b := etcdleader.New(client, nil)
//	defer b.Close()
//	elector, err := leader.New(b)
//
// # Algorithm
//
// Each lease is one key under a lease of etcd, which deletes it when nobody keeps it alive. After the name, a tab and the
// id of that lease follow:
//
//	$ etcdctl get --prefix leader/nightly
//	leader/nightly	694d9a0c3e5f7b21
//	{"format":1,"token":"5SVUAXKIH2V3G…","owner":"web-1:4711:k3s9","since":1764428983123456,"metadata":{"zone":"a"}}
//
// An acquisition is one transaction: the key is created if there is none with the name and the tab, else the holder is
// read. A release deletes the key, which is nobody else's: what it would compare is in the name. A renewal is a
// keep-alive, and beside it a read of the key, for which the servers need a quorum. Only a key that is gone is a loss. An
// attempt is refused without a new revision, but costs the servers an entry of their log.
//
// A key that somebody else puts there, with the name and the tab, is not touched: an attempt then fails with an error of
// kind Misconfigured. What somebody else writes into a key of ours goes with the release, unless a renewal has seen it
// before. A record of ours that is under no lease, as a copy of the store or an edit leaves it, is nobody's and is deleted.
//
// Each lease of etcd that has held a name leaves a deleted key in the store's history, and an attempt passes over all of
// them until the history is compacted. Let etcd do that (auto-compaction-retention), as its quota demands anyway.
// [Backend.Advise] warns of a store that never was.
//
// Leases of etcd come from a pool, by their TTL. Each holds one key at a time. It goes back after a release that the
// server confirmed; after any request whose outcome is unknown it is revoked in the background instead, never used or
// renewed again, so that what is delivered late lasts for one lease at most. A repeated attempt puts the key under
// another one. The pool keeps at most 64 leases alive, each for a minute.
//
// With a minimum lease the key stays after the release, under a lease of its own, also when the process ends.
//
// # Groups
//
// The slots of a group are leases of their own, with names such as nightly#0. One transaction takes the first free one
// of up to 16 slots in random order; in larger groups a second one may be needed. An attempt at a full group is not told
// which lease ends first, only which came first.
//
// # Records
//
// Candidates, run keys and the like are keys such as leader/!nightly!candidate/web-1, each with the format, the TTL in ms
// and the value, under a lease of its own if it has a TTL. The version is the key's revision. The TTL in an answer is the
// one of the last put, not what is left of it. etcd does not tell the time.
//
// # Clock
//
// The server's leader decides when a lease has ended, by its monotonic clock; the clients' clocks do not matter. The
// time of an acquisition that is shown to people is that of the holder's clock.
//
// # Fence
//
// The fence is the revision at which the key was created. It grows over everything: releases, expiry, deletion by an
// operator, and restarts. It does not if a backup is restored without raising the revision. What is in the same etcd needs
// no memory of fences: [Backend.Held] makes a transaction depend on the lease.
//
// # Durability
//
// A cluster loses nothing that it has acknowledged while a majority of its members keep their disks. After a restart, or
// an election among the servers, every lease lasts for its whole TTL once more, so a take-over may be as much later.
//
// Where the cluster has several members it should be of version 3.4.31, 3.5.13 or later. Before, a former leader that
// was stuck could end leases early; [Backend.Advise] warns of that. One that stood still, with its machine, and goes
// on may do so in later versions too: it ends those that it knows and that have run out meanwhile by its own
// reckoning. So a key is moved under a new lease, in two more requests, by the first renewal after the members have
// voted. What is left is a lease so short that it runs out before its next renewal after the vote, of less than about
// 6 s. Versions 3.4.23, as one node, and 3.7.3, as one and as three, are tested.
//
// A token is not remembered once its key is gone. An attempt that arrives after its clean-up is stopped because its
// lease has been revoked by then; if that could not be done it holds the key for one lease, and nobody renews it.
//
// # Waiting
//
// [Backend.AwaitRelease], [Backend.Watch] and leases that are held for more than 50 ms watch the key; all of a backend
// share one watch for each key, and the client sends all watches over one stream. So an expiry wakes a waiter as well as
// a release does, and who holds a lease that is revoked, or a key that is deleted, is told at once. A hand-off costs one
// request for each waiting process, and a release and a keep-alive.
//
// # Limits
//
// A TTL is between 1 s and 10 years. 200 ms are added, so that most acquisitions need no keep-alive, it is rounded up to
// whole seconds, and the server may have a minimum, of 2 s unless its election timeout was changed. Expired leases are
// looked for twice a second. So a lease that nobody renews ends up to 3 s late, never early. A renewal repeats the TTL
// of the acquisition; the engine goes on renewing for a longer extension.
//
// The client fails over to another endpoint when a connection breaks, but not while one is silent, unless
// clientv3.Config has a DialKeepAliveTime: give it one if it has several endpoints.
//
// After a connection was lost, the client tries again after longer and longer pauses, in which leases of less than 10 s
// may be lost. Give it [QuickReconnect].
//
// # Permissions
//
// Where authentication is on, the user needs to read and write the keys that begin with the prefix:
//
//	etcdctl role grant-permission worker --prefix=true readwrite leader/
//
// A refusal is of kind [backend.Denied].
package etcdleader
