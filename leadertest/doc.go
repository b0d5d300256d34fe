// Package leadertest has electors for the unit tests of code that uses package leader, without a store.
//
//	func TestReport_SkipsOnAStandby(t *testing.T) {
//		service := report.New(leadertest.Never("node-b"))
//		...
//	}
//
// [Always] elects, [Never] does not, [Losing] elects and then takes the lease away, and [Script] answers one attempt
// after the other as it is told. [Pretend] puts a lease into a context, for code that is called inside an action.
//
// These electors are what [leader.New] returns, on a driver that answers as it was told. All else, from the options of a
// call to the end of its context, is therefore as it is in production. In particular, a name that an elector leads
// already is taken for its other callers, and no attempt is made for them; two replicas are two electors. What differs is
// that no lease outlives its release: a minimum lease keeps nobody out.
//
// Each elector keeps run keys in memory, which no step governs. Jobs of packages schedule and jobs can thus be tested.
//
// An attempt is one request to the store: a call with a wait time makes many. The fences of an elector count up from 1
// with each new holder, whatever the name. Its node id is "leadertest", and it logs nothing.
//
// Everything works in the virtual time of a testing/synctest bubble, if it was made inside of it.
package leadertest
