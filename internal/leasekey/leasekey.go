// Package leasekey is how other packages of this module ask a context for a lease that package leader does not hand out.
package leasekey

// Named is the key by which a context's Value is the innermost lease of that name: a *leader.Lease, or nil.
type Named string
