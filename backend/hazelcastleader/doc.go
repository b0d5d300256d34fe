// Package hazelcastleader is the backend for Hazelcast, over the user's own client of hazelcast-go-client.
//
//	var config hazelcast.Config
//	config.Cluster.Network.Addresses = []string{"localhost:5701"}
//	hazelcastleader.Configure(&config)
//	client, err := hazelcast.StartNewClientWithConfig(ctx, config)
//	b := hazelcastleader.New(client, nil)
//	defer b.Close()
//	elector, err := leader.New(b)
//
// Read "What can go wrong" before you use it: Hazelcast's maps are not a consensus.
//
// # Algorithm
//
// Each key has one entry of a map, which outlives its leases. Its value is a text:
//
//	{
//	  "format": 1,
//	  "fence": 15961628430081,      grows with every lease
//	  "token": "5SVUAXKIH2V3G…",    of the holder; none while the key is free or kept
//	  "spent": "ZJ4WPCBXG7YQO…",    the token that was released or abandoned last
//	  "owner": "web-1:4711:k3s9",
//	  "metadata": {"zone":"a"},
//	  "since": 1764428983123,       when it was acquired, in ms since 1970
//	  "until": 1764429013124,       when the lease, or the time for which the key is kept, ends; none if it is free
//	  "clock": 1,                   the number of the member by whose clock that is
//	  "nonce": "QH5M2JWX…"          of the write
//	}
//
// It is changed by compare-and-set alone: PutIfAbsent, or ReplaceIfSame with the whole old value. Each write has a nonce,
// so no value ever comes back, and a write that arrives late changes nothing that was written since. After an error or a
// refusal the entry is read: if it is what was written, the write was applied and its answer lost.
//
// Acquiring reads the entry and the clock at once, and changes the entry: two round trips. A losing attempt takes the
// first of them and writes nothing. For a key that one backend has again and again the read is left out, because the
// change compares. Renewing takes two (the clock, the change), and so does releasing a key that is to be kept; releasing
// takes one, looking takes one, abandoning and breaking take two.
//
// The entries are permanent, in memory on each member that has a copy, some 300 bytes for each name that was ever used.
//
// # Groups
//
// The slots of a group are entries with keys such as nightly#0. An attempt reads all of them and the clock at once, and
// takes a free one. As each is in a partition of its own, each is a request: with free slots, a term in a group of 10 takes
// about 5 times as long as one of a single lease, in a group of 100 about 25 times.
//
// # Records
//
// Candidates, run keys and the like are entries of a second map, leader_records, with a random version. Reading a set
// makes the members look through that whole map, and deletes what has expired in the set. The members' own TTL only
// collects what nobody reads or replaces.
//
// # Clock
//
// Leases are dated and judged by the clock of a member, which is read through a Flake id: the members make those of their
// time. No instant of a client is ever sent. All clients should read the same member's clock. [PinnedBalancer], which
// [Configure] sets, makes them choose the smallest address, so they need to know the members by the same addresses. When
// that member goes they read another one's. An end that was dated by the clock of one member is judged by that of another
// [Options].MaxSkew later, so a take-over may then be late by that much, or by three times that if the holder reads several
// clocks in turn. It is early if the members' clocks differ by more than MaxSkew, or if a member's clock is set forward.
//
// A client keeps 100 Flake ids in stock by default, which would not tell the time; Configure makes it ask for each. A
// client without it is noticed and refused ([backend.Misconfigured]), and so are members whose ids, by their configuration,
// tell a time that is off by more than a year. A member makes 64 ids in a ms; asked for more, its clock runs ahead. A
// client asks for one at a time, whoever shares it. Times are in whole ms, and a lease is stored a millisecond longer than
// asked for, so that this never makes it shorter.
//
// # Fence
//
// A fence is the last one plus 1, but at least the clock in 1/64 ms. So it also grows when the entry was deleted, and
// when the whole cluster has forgotten everything, unless the clock is behind then, or an attempt is under way while the
// entry is deleted.
//
// # What can go wrong
//
// Hazelcast keeps a map in memory, by default one copy and one backup on another member, and prefers to answer rather than
// to agree. What that means for leases, each shown by a test:
//
//   - One of two or more members is lost: the backup takes over, no lease is lost, fences go on. Calls that are under way
//     fail, and are tried again. A member that is silent, rather than gone, keeps its share of the names, and while its
//     clock is the one that is read all of them, from being acquired and renewed until the others drop it, by default
//     after 60 s; leases end meanwhile.
//   - A lone member is restarted, or the members that have a copy are lost at once: the leases are forgotten. Others lead
//     at once, with greater fences, while former holders trust their leases until their next renewal, which tells them.
//   - The members are split: each side goes on with what it knows. The other side's leases run out there, and then a name
//     has a holder on each side, both of which trust it, for as long as the split lasts and the members take to notice
//     that it has healed (minutes, by default), and the loser until its next renewal. Hazelcast then keeps the entry of
//     one side.
//
// A member that was stopped, and goes on after the others have dropped it, is the side of a split until it has heard of it.
// In the last two cases only the fence protects what leaders write. Use a backend of a store with consensus where that is
// not enough. Against splits Hazelcast has a split-brain protection by the number of members, to be configured for the
// map on the members: a side that is too small then refuses (Unavailable). More backups help against the loss of several
// members at once. Hazelcast's own locks with consensus, of its CP subsystem, need its enterprise edition.
//
// The maps must have no eviction, time-to-live-seconds, max-idle-seconds or near cache. [Backend.Advise] warns of the times
// and of several clocks; the rest a client cannot see.
//
// # Waiting
//
// An entry listener wakes whoever waits: all waiters and watchers of a [Backend] share one, with an event for each change
// of the map, renewals included, of which only the others wake. Events may be lost when members come and go, so
// everybody is woken then.
//
// # Limits
//
// A TTL is between 100 ms and 10 years. One request is given 2 s, whatever the client's InvocationTimeout is; after that
// the member counts as unavailable. The client pauses between its own tries without looking at the context, so a call may
// outlive it by some hundred milliseconds ([backend.Limits].Blocking). The client logs much, which its configuration
// turns off: config.Logger.Level = logger.OffLevel.
//
// A connection that has become silent is given up by the client after its HeartbeatTimeout, 60 s by default, which should be
// shorter than a lease. Version 1.4.3 of the client may hang for good while it connects anew, if what it connects to takes
// connections and resets them at once, as a proxy without a member behind it does. Every call is then Unavailable until
// the process makes another client; connections that are refused do no harm.
//
// # Permissions
//
// Members of the enterprise edition can check permissions. By its documentation a client needs create, read, put, remove
// and listen for both maps, and create and modify for the Flake id generator leader-clock.
//
// # Tests
//
// The tests run on members of Hazelcast 5.5.0, one or two, without authentication. With LEADER_HAZELCAST_ADDR set to the
// address of a member, those that harm none use its cluster.
package hazelcastleader
