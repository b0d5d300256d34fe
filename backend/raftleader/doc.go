// Package raftleader is the backend for services without a store: the processes of the service keep the leases among
// themselves, in a log that hashicorp/raft replicates.
//
//	b, err := raftleader.Open(ctx, raftleader.Config{
//		Addr:  "10.0.0.1:7000",
//		Peers: []string{"10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"},
//		Dir:   "/var/lib/service/raft",
//	})
//	if err != nil {
//		return err
//	}
//	defer b.Close()
//	elector, err := leader.New(b)
//
// # What holds
//
// A lease is granted when a majority of the nodes has it in its log: on disk if they have a Dir. No lease that was
// granted is forgotten, and none ends before its time, as long as a majority keeps what it has; whichever nodes are
// killed, stopped, cut off or restarted meanwhile, and whatever their wall clocks show. That the clocks of the machines go
// at the same rate, within a thousandth, is assumed.
//
// Without a majority nobody is elected. Calls then fail, as [backend.Unavailable], with "no quorum" in the text and the
// nodes that do not answer; a call waits for three election timeouts before, or a second, in case there is an election.
//
// One node alone is a cluster too. It waits for nobody.
//
// # Sizes
//
//	nodes   a majority   may be away
//	1       1            0
//	2       2            0: have one or three
//	3       2            1
//	5       3            2
//
// # Algorithm
//
// Each acquisition, renewal, release and written record is one entry in the log; a term is two, its acquisition and its
// release. An attempt that loses, and whoever looks, gets no entry: the raft leader asks a majority of the nodes whether
// it still is that, which takes one round trip and writes nothing. Any node takes any call; it passes it on to the raft
// leader. That the raft leader is the node itself, or which it is, has nothing to do with who leads what in the
// service.
//
// A new raft leader answers nobody until it has applied everything that was in the log before.
//
// # Clock
//
// Leases end by the time of the log, which no wall clock has a part in. An entry has the time at which the raft leader
// proposed it: that of the newest entry when it took office, and since then the time by its machine's monotonic clock. So
// the time of the log does not go back and never runs ahead of real time. Between two raft leaders it stands still, and
// leases last longer by that: by the election, and by up to a second since the last entry. While leases run, the raft
// leader sees to it that there is an entry in every second. [backend.Limits].Late is that second and three election
// timeouts.
//
// [backend.Holder].Since is by the wall clock of the raft leader, for people to read.
//
// # Fence
//
// A fence is the index of the log entry that granted the lease, plus the wall clock, in µs, of the node that founded the
// cluster. So it also grows over a cluster that forgot everything and was founded anew, unless the clock was set back in
// between.
//
// # Membership
//
// Peers are the addresses of all nodes, the same list for each. The first start needs all of them: the one with the
// smallest address founds the cluster when every peer has answered that it has no log. Later starts need a majority.
//
// A node is what its log makes it, not its address. Log and id are in the same file, so they are lost together. A node
// that comes without a log, because its disk was wiped or it keeps it in memory, is a new member: the raft leader removes
// the one that had its address before, sends the log, and then gives it a vote, once it has seen that the new one answers
// at that address. It never votes by a log that it forgot.
// That takes a majority of the old members, so nodes that forget have to be restarted one after the other.
//
// If a majority forgets at one time, those that still know refuse to begin anew, since leases may be running by what they
// know. The error names the nodes that came without a log. Bring their disks back, or stop all nodes and wipe those that
// still know.
//
// To add a node: give all nodes, one after the other, a Peers with its address, and then start it. To take one away:
// [Backend.Leave] on it, or [Backend.Remove] if it is lost, and then a Peers without it for the others. To move one to
// another address, do both; a node that keeps its Dir may come back at another address that is among the peers.
//
// # In memory
//
// Without a Dir the log is as durable as a majority of the processes. It is meant for services whose processes are
// replaced one by one; the time to elect is the same, and a term takes no write to a disk. When all of them have ended, all
// leases are forgotten: their holders, which are these processes, have ended too. One that closes its node while its work
// goes on, though, has to give up its leases before.
//
// # Waiting
//
// The raft leader tells those who wait when the log has the release, with no poll in between. A release that is only seen
// in a follower's log, while there is no raft leader, is noticed too. [Backend.AwaitRelease] and [Backend.Watch] cost the
// raft leader one question every 2 s for each waiting node and key.
//
// # Log and snapshots
//
// When 4,096 entries have come since the last one, a node writes a snapshot and cuts its log, but for the last 4,096
// entries; so its size depends on how many keys there are, and not on how many terms there were. The two newest snapshots
// are kept. A node that was away for longer gets a snapshot. What is known of a free lease is dropped an hour after its
// end.
//
// A node that finds an entry or a snapshot in a format of a later release stops, and says so by [Backend.Check]; so
// update all nodes before the new release writes such entries. The log of a later format is never overwritten.
//
// # Limits
//
// A TTL is between 100 ms and 10 years. Calls return when their context ends. On two thirds of the nodes each call has
// to be passed on, which costs one round trip more.
//
// # Network
//
// A node listens on one port, for all that the nodes say to each other. With [Config].TLS both sides show a certificate.
// Without it whoever reaches the port can take part: keep it within the machine or a private network.
// [Backend.Advise] warns of that. A stream names the server that it is for, and another one refuses it; so do those of
// another cluster at an address that was mixed up.
package raftleader
