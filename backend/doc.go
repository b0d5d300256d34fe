// Package backend is what a store has to offer so that package leader can elect on it.
//
// Applications do not call it: they give a [Driver] to leader.New. Authors of drivers read the comments below, which
// number the rules that a driver keeps, and run the conformance suite in package backendtest, which executes the same
// rules and prints the number of one that is broken.
//
// A driver is an adapter, not a policy: it makes one attempt, answers truthfully, and returns the client's own error.
// Waiting, retries, jitter, renewal, trust, logging and counting are done once, in package leader.
//
// The rules, in short; the interfaces repeat those that concern them:
//
//  1. Exclusion. Between a successful TryAcquire and the end of its TTL, by the store's measure, no other token gets
//     the key. Once expired, it is acquirable without any help from the dead holder.
//  2. Held is ordinary. A losing attempt returns [HeldError] with the holder where that costs no further round trip,
//     promptly, having written nothing where the store allows it.
//  3. Idempotence by token. An attempt that is repeated with the token that holds the key succeeds with the same fence
//     and moves the end to at least now+TTL, in one atomic step. Abandon frees the key if the token holds it. Where a
//     record outlives the lease it keeps the token as spent, and TryAcquire refuses the last spent token with
//     [ErrLost], so that an attempt which arrives late, after its clean-up, opens no term.
//  4. Fence. Greater than every fence granted before for that key, also across expiry, release, deletion of the record
//     and restarts; constant while the lease lives. A new record starts at the server's clock in microseconds, or at
//     the store's global revision, never at 1.
//  5. Renew moves the end to max(end, now+ttl), never earlier. After the lease ended it returns ErrLost, creates
//     nothing and touches no successor. Any other error means that the outcome is unknown.
//  6. Release is idempotent, compares the token in the same atomic step, never disturbs a successor, and returns nil
//     for a lease that is already gone. With keep > 0 the key stays unavailable for at least keep from now, also if
//     this process dies; a repeated call sets keep anew and adds nothing to it.
//  7. Time. Expiry is judged by the store's clock where it has one, else by unchanged observation over the driver's own
//     monotonic clock. Two clients' clocks are never compared. A TTL finer than the store's granularity is rounded up.
//  8. Context. A call returns an error that wraps ctx's soon after ctx ends, or the driver says Limits.Blocking. A
//     goroutine that outlives a call is owned by a Lease or by the backend and ends with Release or Close.
//  9. No policy. No retries, sleeps, jitter, logs or counters. (A store's own optimistic conflict may be retried at
//     once, at most three times, of a group a bounded number of times; a Waiter may look at a cheap local sign every
//     20 ms.)
//  10. Concurrency. All methods may be called concurrently, those of one Lease included.
//  11. Keys come from the engine (see [SlotKey]); a driver for a poorer store maps them injectively, and foreign records
//     beside ours are ignored, not misread.
//  12. Errors are the client's own, reachable by errors.As and classified by [WithKind]. No secret is in a text.
//  13. Format. Every record has a format version; an unknown major version is Misconfigured, never overwritten.
//  14. Pooled leases and sessions hold one key at a time and are never used again after an error, a loss or an
//     abandoned call.
package backend
