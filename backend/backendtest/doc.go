// Package backendtest is the conformance suite for drivers of package backend: it executes the numbered rules of that
// package's comment, and a failure prints the rule that is broken.
//
// The whole conformance test of a driver looks like this:
//
//	func TestConformance(t *testing.T) {
//		server := startServer(t)
//		backendtest.Run(t, backendtest.Config{
//			Open: func(t testing.TB, n int) []backend.Driver {
//				drivers := make([]backend.Driver, n)
//				database := server.NewDatabase(t)
//				for i := range drivers {
//					drivers[i] = New(server.Dial(t), &Options{Database: database})
//				}
//				return drivers
//			},
//			Fidelity: backendtest.Real,
//			TTL:      300 * time.Millisecond,
//		})
//	}
//
// [Config] has three more functions, which freeze a connection, kill the server and harm a record. The cases that need
// one are skipped without it, and say so. Skip leaves out a case that does not fit the store, with a reason; a store
// whose records end with their lease, say, cannot remember a spent token.
//
// A driver declares what its store cannot do by backend.Limits, and offers abilities by implementing them; the suite
// follows both, and says which cases it left out for that. [Cases] lists what is tested. If the environment variable
// LEADER_MATRIX names a folder, Run writes its [Results] there, from which docs/backends.md of this project is made.
//
// Run looks at a driver alone. [Overlap] runs the whole of package leader on it: a holder renews leases of twenty names
// and a contender campaigns for them, while a fault happens to connections, to the store or to the holder's process.
// Both sides note when they trusted which lease, by instants that they took before they looked. The test fails if both
// ever trusted one lease at a time, if a fence went back, or if the fault cost leases that it should not have cost; it
// prints the largest overlap that it saw.
//
// The suite tests itself: its own tests run each case against a driver that is right in all but what the case is for.
package backendtest
