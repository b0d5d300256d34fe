// Package lockassert asks inside a function whether it runs under a lease, so that code which must not run without one
// says so itself instead of trusting its callers.
//
//	func (s *Store) Compact(ctx context.Context) error {
//		if err := lockassert.Held(ctx, "compaction"); err != nil {
//			return err
//		}
//		...
//	}
//
// The answer comes from ctx alone: it must be the context of an action, [leader.Lease.Context], or derived from one, on
// whatever goroutine. Nothing is asked of the store; Held reads the clock, so that it also notices a lease that ended
// while the process was stopped. It says nothing about what happens after it: for effects there is the fence.
//
// Leases nest, as when an action runs another one under a second name with its own context. A lease is found by its name
// however deep it is nested; without a name the innermost one counts. Names are those of the calls, without namespace and
// slot; of two leases with one name, from two electors, the inner one counts. An action that runs without a lease, under
// [leader.FailOpenRun], holds none of that name, but may well run inside of another: name the one that is meant.
package lockassert
