// Package redisleader is the backend for Redis and Valkey, over the user's own go-redis client.
//
//	client := redis.NewClient(&redis.Options{
//		Addr:                  "localhost:6379",
//		ContextTimeoutEnabled: true, // see Limits
//	})
//	b := redisleader.New(client, nil)
//	defer b.Close()
//	elector, err := leader.New(b)
//
// # Algorithm
//
// Each key has one record, a hash that outlives its leases:
//
//	> HGETALL leader:{nightly}
//	format    1
//	fence     1764428983123456    grows with every lease
//	token     5SVUAXKIH2V3G…      of the holder; empty while the key is free or kept
//	since     1764428983123456    when it was acquired, in µs
//	until     1764429013123456    when the lease, or the time for which the key is kept, ends, in µs; 0 if released
//	spent     ZJ4WPCBXG7YQO…      the token that was released or abandoned last
//	owner     web-1:4711:k3s9
//	metadata  {"zone":"a"}
//
// Acquiring, renewing, releasing, breaking, abandoning and looking are one script each, and one round trip. A losing
// attempt writes nothing and learns the holder. Scripts are sent by their hash, and whole when the server has forgotten
// them.
//
// The key of a name has a hash tag around the name, so that all records of one name are on one node of a cluster.
// Braces and backslashes within the name are escaped: "a{b}" is stored as leader:{a\(b\)}.
//
// # Groups
//
// The slots of a group are leases with records of their own, as leader:{nightly}#0, and one script looks for a free one.
// A repeated attempt has to find the slot that it already has. So that this does not take reading them all, a hash
// leader:{nightly}:tokens repeats the tokens of each slot. It may be deleted at any time: the next attempt reads all
// slots, and the next winner writes it anew.
//
// With free slots, a term in a group of 3 takes about 1.1 times as long as one of a single lease, in a group of 10 about
// 1.2 times, and in a group of 100, whose keys all have to be sent, 1.8 times. An attempt at a full group reads all
// slots, at about 1.5 µs each.
//
// # Records
//
// Candidates, run keys and the like are kept in one hash for each name and kind:
//
//	> HGETALL leader:{nightly}!candidate
//	format    1
//	/web-1    K7P2QZX5WNB3J… 1764429013123456 {"score":0.9}
//
// The version, a random number, comes first, then the end in µs, 0 for none. An expired record is deleted by whoever
// reads the set. The hash itself goes 7 days after the last end, or 7 days after the last record was deleted.
//
// # Clock
//
// The server's clock alone decides: scripts compare until with TIME. The clients' clocks do not matter. A step of the
// server's clock moves the ends of leases as much, in a failover too, if the new primary's clock differs.
//
// The expiry of the hash of a lease only collects garbage, 7 days after the end of the last lease.
//
// # Fence
//
// A new lease gets max(stored+1, TIME in µs). So the fence also grows over a deleted record, FLUSHALL, eviction, and a
// failover that lost the last writes. It does not if the clock is behind at that moment: if a record is lost and the
// server's clock, or the new primary's, shows an earlier time than that record's fence.
//
// # Durability
//
// Redis acknowledges a write before it is safe. What is lost then is lost for leases too, and until it ends, a
// forgotten lease is held by somebody who still trusts it, while another one may acquire; the fence tells them apart.
//
//   - Without an append-only file a restart forgets every lease.
//   - With appendfsync everysec it may forget those of the last second or two, with always none.
//   - A failover forgets what the new primary had not received. [Options].MinReplicas makes that less likely: WAIT is
//     no consensus.
//   - An evicting maxmemory-policy may drop a record while its lease is live; volatile policies too, since records
//     have an expiry.
//
// [Backend.Advise] warns of a missing append-only file and of an evicting policy. A [redis.Ring] is refused, because it
// moves keys to other servers while one is down.
//
// # Waiting
//
// A release publishes the fence on a channel that is named as the record's key, and [Backend.AwaitRelease] listens.
// With a [redis.ClusterClient] these are sharded channels, which Redis 7 brought; on an older cluster waiters poll. All
// clients of one cluster should be of that kind, or waiters of the other kind poll. Nothing is published when a lease
// expires or when keep ends. Expect one command for each hand-off in each waiting process.
//
// # Limits
//
// A TTL is between 10 ms and 10 years. go-redis answers a cancelled context only after its read timeout (5 s unless
// set) when a connection is silent, so that [backend.Limits].Blocking is set. Set ContextTimeoutEnabled in the client's
// options: its calls keep deadlines then, and an attempt near a swift server costs two switches of goroutines less, which
// is as much as its round trip on an idle machine. The client repeats a command whose connection broke (MaxRetries),
// which is harmless here: scripts recognise the token, or the version. A full server, and a replica, refuse to acquire,
// renew and release.
//
// [Backend.List] looks at all keys of the database, whatever they belong to, a thousand at a time. A Watcher is not
// offered, because an acquisition publishes nothing: that would cost every run a command. Package leader looks at the
// record every second or less, and when a release is published.
//
// # Permissions
//
// It needs Redis 5 or Valkey; it is tested with Redis 7.0. A user with an access control list, which Redis 6 brought,
// needs
//
//	~leader:* &leader:* +evalsha +eval +time +hmget +hset +pexpire +exists
//	+hget +hvals +del  (for groups)  +hget +hgetall +hdel +hlen +pttl +persist  (for records)  +scan  (to list)
//	+publish +subscribe +unsubscribe +ping (to wait; in a cluster +spublish +ssubscribe +sunsubscribe +ping)
//	+info (to be warned)  +wait (for MinReplicas)  +cluster|slots +command (for a cluster client)
//
// Without permission to publish a release works and wakes nobody; without permission to subscribe waiters poll.
package redisleader
