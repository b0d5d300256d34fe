// Package zkleader is the backend for Apache ZooKeeper, over the client github.com/go-zookeeper/zk.
//
//	b := zkleader.New([]string{"zk1:2181", "zk2:2181", "zk3:2181"}, &zkleader.Options{
//		SessionTimeout: 10 * time.Second, // the lease time
//	})
//	defer b.Close()
//	elector, err := leader.New(b)
//
// # Algorithm
//
// Each key has one node, which outlives its leases. Its data is the record, and while the key is held it has an
// ephemeral child, named by a sum of the holder's token:
//
//	[zk] get /leader/nightly
//	{"format":1,"token":"5SVUAXKIH2V3G…","session":72084,"owner":"web-1:4711:k3s9","ttl":10000,"spent":"ZJ4WPCBX…"}
//	[zk] ls /leader/nightly
//	[term-92b1e3a5c07d4f18]
//
// Acquiring is one transaction: set the data at the version that was seen, create the child. Renewing checks that the
// child exists and sets the data; releasing sets the data and deletes the child. Each is one round trip. The version
// decides who wins, the child whether a term is still that term: unlike a version its name never comes again.
//
// An attempt looks first, one read, which tells the holder, and writes only if the key is free. So a losing attempt
// writes nothing. After its own release, or a look that found the key free, within the last second, an attempt is the
// transaction alone.
//
// Names keep their text as far as ZooKeeper allows it; a slash, a percent sign, control characters and what is beyond
// the basic plane become a percent sign and two digits for each byte.
//
// Other nodes below the root, and children beside ours, change nothing. A node without data is a free key. Data that
// is no record, or one of another format, is an error of kind [backend.Misconfigured] and is not overwritten.
//
// # Sessions
//
// A backend dials the servers itself and has one session, which all its leases share. That is safe without a pool,
// because a session that lives keeps no lease alive:
//
//   - A lease that its holder does not renew ends for others when they have seen it unchanged for its TTL, whatever
//     becomes of the session. So what an attempt left that was applied although its answer was lost stays for one lease.
//   - A lease whose session has ended ends as soon as the server's clock, or that observation, says that its TTL has
//     passed. No earlier: servers may end a session a little too early for a renewal that has just come in.
//   - Every write compares. Giving up an attempt of unknown outcome raises the version that the attempt has to find.
//
// A client that has lost its session is closed and never gets another one. A connection that broke is replaced, to
// another server where there is one, and the session goes on, its leases with it. The first request on it is one that
// waits for what was written before.
//
// The client knows no context: a call ends with its answer or its connection ([backend.Limits].Blocking). A call that
// is past its deadline on a connection that has been silent all the time, for 500 ms and a
// tenth of the session timeout at least, closes that connection.
//
// # Clock
//
// Expiry is judged by observation, on the monotonic clock of whoever asks, and, if the session of the holder has
// ended, also by the server's clock, of which every write tells the time. What is kept after a release, and records,
// end by the server's clock alone; who has not written within a minute writes the node !clock below the root to learn
// the time. That is the clock of the server that leads the others: when another one comes to lead, the two have to
// agree within the safety margin. Two clients' clocks are never compared. A process that lives too shortly to observe
// takes a lease that nobody renews once the session of its holder has ended, or if it is older than twice its TTL and a
// minute.
//
// # Fence
//
// The fence is the zxid of the transaction that acquired. It grows over everything that happens, including deletions
// by an operator, as long as the servers keep their data. A new ensemble, or one restored from a backup, begins anew.
//
// # Durability
//
// A write is answered when a majority of the servers has it on disk. It survives the loss of a minority. With
// forceSync=no a majority of machines that lose power at once may forget it.
//
// A renewal is a write, so a server that is cut off from the others confirms none; nor does it a repeated attempt.
// What it answers to a read, as for Inspect, may be old.
//
// # Waiting
//
// A waiter watches the child of the holder's term, and so is told of its release and of the end of its session; of a
// kept key it watches the node. A process has one watch for a key, however many wait. This client cannot take a watch
// back: it goes when the term ends. Expect a look and a transaction for each hand-off in each waiting process.
//
// A lease that is held for 100 ms or longer is watched likewise, and tells at once when it is lost
// ([backend.LossNotifier]): its session has ended, or somebody has deleted its node.
//
// # Limits
//
// A TTL is at least 100 ms and at most [Options].SessionTimeout, 10 s unless set; package leader moves a default
// lease time inside. A process that dies is replaced when its session has ended and its TTL has passed, so the two
// should be the same. A server grants a timeout between two and twenty of its ticks, 4 s and 40 s by default;
// [Backend.Advise] warns if that is not what was asked for. A renewal repeats the TTL ([backend.Limits].FixedTTL).
//
// The nodes of keys stay, about 200 bytes for each name that was ever led. They may be deleted while nobody leads. An
// operator who deletes the node of a key ends its lease: its holder is told, and somebody else may lead before that.
//
// Candidates, run keys and the like have a node each below one for their set, such as
// /leader/nightly!candidate/web-1, with a child that is named by the version. Whoever reads a set deletes what has
// expired.
//
// # Permissions
//
// It needs ZooKeeper 3.4 or later, for transactions; it is tested with 3.8. Nodes are created with [Options].ACL.
// What is needed on the root and below is read, write, create and delete; above the root nothing if it exists.
package zkleader
