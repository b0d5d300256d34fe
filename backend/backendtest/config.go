package backendtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	defaultTTL  = 2 * time.Second
	defaultSkew = 10 * time.Millisecond
)

// Config is what the suite has to know of a driver and of the store behind it. Open and Fidelity are required.
//
// Each function gets the [testing.TB] of the case that calls it, and may end the case by its Skip or Fatal: a store
// that knows no types, say, skips the damage [WrongType].
type Config struct {
	// Open returns n independent clients of one fresh, empty store: its own database, file or key prefix. What it
	// starts it stops by Cleanup. Cases run beside each other, so Open is called concurrently, and the stores of two
	// calls must not meet.
	Open func(t testing.TB, n int) []backend.Driver

	// Fidelity says what stands behind the clients. It is printed in the test log.
	Fidelity Fidelity

	// TTL is the shortest that the store honours well; 0 means 2 s. Cases that let a lease end take some TTLs each.
	TTL time.Duration

	// Skew is the tolerance on an expiry that comes too early; 0 means 10 ms.
	Skew time.Duration

	// Partition freezes the connections of client i of the newest Open: they stay open and nothing passes. The
	// returned function lets everything pass again, what was written meanwhile included. Nil skips the cases that
	// need it. Those cases run alone.
	Partition func(t testing.TB, i int) (heal func())

	// PartitionsLeader says that Partition may cut off the store's own leader, so that the store is unavailable until the
	// others follow another one.
	PartitionsLeader bool

	// Restart kills the store of the newest Open without warning and starts it again with what it had acknowledged.
	// It may return before the store answers. Nil skips the cases that need it. Those cases run alone.
	Restart func(t testing.TB)

	// Corrupt harms the record of key in the store of the newest Open, behind the driver's back; where there is no
	// record it makes a harmed one. Nil skips the cases that need it. Those cases run alone.
	Corrupt func(t testing.TB, key string, how Damage)

	// Skip names cases that are not run, each with the reason, which is printed.
	Skip map[string]string
}

// Fidelity says what stands behind the clients of a [Config].
type Fidelity string

// The fidelities.
const (
	Real     Fidelity = "real"     // the store's own server
	Embedded Fidelity = "embedded" // the store's own code in this process
	Double   Fidelity = "double"   // another implementation of the store's protocol
)

// Damage is what [Config].Corrupt does to a record.
type Damage int

// The damages.
const (
	// Deleted removes the record, as an operator would; where there is none it does nothing.
	Deleted Damage = iota + 1
	// Garbled makes the record unreadable.
	Garbled
	// WrongType puts something of another type of the store in the record's place, as another application would.
	WrongType
	// NewerMajor raises the record's major format version and leaves the rest.
	NewerMajor
)

// String returns the damage in words.
func (d Damage) String() string {
	switch d {
	case Deleted:
		return "deleted"
	case Garbled:
		return "garbled"
	case WrongType:
		return "of a wrong type"
	case NewerMajor:
		return "of a newer major version"
	}
	return fmt.Sprintf("Damage(%d)", int(d))
}

// withDefaults fills in the defaults and ends the test if c cannot be run.
func (c Config) withDefaults(tb testing.TB) Config {
	tb.Helper()
	if c.Open == nil {
		tb.Fatal("backendtest: Config.Open is required")
	}
	if !slices.Contains([]Fidelity{Real, Embedded, Double}, c.Fidelity) {
		tb.Fatalf("backendtest: Config.Fidelity is %q, want %q, %q or %q", c.Fidelity, Real, Embedded, Double)
	}
	for name := range c.Skip {
		if !slices.ContainsFunc(suite(), func(tc testCase) bool { return tc.name == name }) {
			tb.Errorf("backendtest: Config.Skip names %q, which is no case", name)
		}
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.Skew == 0 {
		c.Skew = defaultSkew
	}
	return c
}
