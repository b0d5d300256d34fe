// Package consulleader is the backend for Consul, over the user's own client.
//
//	client, err := api.NewClient(api.DefaultConfig())
//	…
//	b := consulleader.New(client, nil)
//	defer b.Close()
//	elector, err := leader.New(b, leader.WithLeaseTime(15*time.Second))
//
// # Algorithm
//
// Each lease is a key that is locked by a session, and deleted with it:
//
//	$ consul kv get -detailed leader/nightly
//	CreateIndex      8213     the fence
//	Session          9c2d5b1e-…
//	Value            {"format":1,"token":"5SVUAXKIH2V3G…","owner":"web-1:4711:k3s9","since":1764428983123456,
//	                  "ttl":15000000,"metadata":{"zone":"a"}}
//
// Acquiring is one transaction, which locks the key if there is none; releasing deletes the key if it is still that of
// the lease. So a term takes two requests. It is renewed in two: that of the session, and a consistent read which
// proves that the key is still locked by it. Only what the read finds is a loss: a server that has just begun to lead
// may not know a session yet. Renewals and reads cost the servers no log entry.
//
// A session is made without health checks, since a node that is suspected for a moment would end its leases, and
// behaves as "delete". After a release that the server confirmed it serves the next lease of the same TTL. It lives
// 200 ms longer than a lease, and is used as it is if it was renewed within the last 200 ms, else renewed first. At most
// 64 sessions wait for that, each for a minute. One of which any request failed, or was left behind, is destroyed in the
// background and never used again: a request that arrives late finds no session, and opens no term.
//
// An attempt that has no session at hand looks at the key first. So an attempt at a held key mostly costs one read,
// and tells the holder. An attempt that is made right after a term, and one that loses a race, costs a transaction,
// which is an entry in the servers' log also if it fails, and a read.
//
// A lease that is kept (see leader.WithMinLease) passes to a session of its own in the same step as it is released. This
// process ends it on time; if it cannot, the session does, up to as late again.
//
// What is stored under the key by somebody else is not touched: an attempt then fails with an error of kind
// Misconfigured. A record of ours that no session locks, as a restored backup leaves it, is no lease and is replaced.
//
// # Groups
//
// Slots are keys of their own, as leader/nightly#0. An attempt reads all of them in one request, and tries those that
// are free in random order. An attempt at a full group costs the servers no log entry. A repeated attempt ends the
// sessions of those before it first, so that one token never has two slots.
//
// # Records
//
// Candidates, run keys and the like are keys below leader/.records/. The value is "1", the TTL and the end in µs, and
// what was put, with a space between. A record with a TTL is locked by a session of its own, which this process renews
// when it replaces the record. So the servers judge its end, up to one TTL late; a TTL under 10 s counts as 10 s. One of
// more than 24 h, the longest that a session has, is judged by the clients' clocks. What is left of a TTL is not known,
// and the whole of it is shown. The store tells no time.
//
// # Clock
//
// The servers' leader judges when a session ends, and begins anew when the leader changes, so that leases only become
// longer. The clients' clocks do not matter. A server ends a session up to one TTL late: of a lease of 10 s that is not
// renewed, the key is free after 10 to 20.4 s.
//
// # Lock-delay
//
// A session may end before its time: destroyed by an operator, or with the node whose agent made it, which happens when
// an agent leaves gracefully. Its holder trusts the lease until it hears of that. So for the lock-delay nobody gets the
// key, which is the lease time, at most 1 minute, unless [Options].LockDelay says otherwise. It applies to the end of a
// dead holder's session too, and delays nobody after a release, after [Backend.Break], or when a key is deleted.
// Leases of more than a minute are covered for that minute, and by the fence.
//
// A holder whose agent can be reached hears at once, by a blocking query, once its lease is 200 ms old.
//
// # Fence
//
// The fence is the index at which the key was created. It is greater than all before, whatever is deleted, as long as
// the servers keep their log. It does not grow over the restoration of an older snapshot into new servers, whose indexes
// may begin lower.
//
// # Durability
//
// Consul acknowledges what a majority of its servers has on disk. With -dev it keeps nothing; [Backend.Advise] warns of
// that, and of an agent that leaves when it is terminated while the lock-delay is off.
//
// # Waiting
//
// [Backend.AwaitRelease] makes a blocking query on the key, which all waiters of a backend share. It sees a release, a
// break and the end of a session, but not that of a lock-delay, which is known to the waiter otherwise. Watching for a
// loss takes the same query, [Backend.Watch] one of its own. Each takes a connection, of which an agent accepts 200 from
// one address unless it is told otherwise, so at most [Options].MaxWatches are made at a time. Beyond it waiters poll
// and losses are told by the next renewal. A query that fails is no loss, and an answer that is older than the lease is
// not either.
//
// # Limits
//
// A TTL is between 10 s and 24 h, and the same for all of a lease: a renewal repeats it. The client's transport keeps
// few idle connections (MaxIdleConnsPerHost): give it as many as there are requests at a time.
//
// Nothing is left of a lease that has ended. So a token that was used on another client is not refused, and an expired
// lease is not listed. An attempt that was given up is stopped by the end of its session; if that cannot be reached, it
// may still take the key, for one lease.
//
// It is tested with Consul 1.15.
//
// # Permissions
//
// With access control lists, a token needs
//
//	key_prefix "leader/" { policy = "write" }
//	session_prefix ""    { policy = "write" }
//	agent_prefix ""      { policy = "read" }   (to be warned)
package consulleader
