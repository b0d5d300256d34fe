// Package local elects within one process: an in-memory store for tests, for services that run as a single replica, and
// as the reference that other drivers are compared with.
//
// Electors that share one [Backend] exclude each other; two Backends have nothing in common. Nothing outlives the
// process, so neither do leases.
//
// Expiry is judged by the process's monotonic clock, which makes the package exact in virtual time (testing/synctest).
// A fence is the larger of the last fence plus one and the wall clock in microseconds, so that it usually also grows
// over a restart of the process, unless the wall clock was set back meanwhile.
//
// What is kept of a released key (its spent token) is dropped some minutes later, when other keys are acquired. Expired
// records are dropped when others are stored.
package local
