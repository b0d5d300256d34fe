package backendtest

import (
	"os"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	oracleProcesses  = 4
	oracleElectors   = 5  // in each process
	oracleContenders = 10 // goroutines of each elector

	oracleName         = "workers"
	defaultOraclePhase = 7 * time.Second
	shortOraclePhase   = 3 * time.Second
)

// oracleSlots is how many slots the electors have, phase by phase.
func oracleSlots() []int { return []int{3, 5, 2} }

// OracleConfig is what [GroupOracle] has to know of a store. Start and Dial are required.
type OracleConfig struct {
	// Start starts a fresh, empty store that ends with the test, and returns its address, of which only Dial needs to
	// make sense.
	Start func(t testing.TB) (address string)

	// Dial opens a client of the store at an address, which ends with the test. It is called in child processes, which
	// know nothing but the address.
	Dial func(t testing.TB, address string) backend.Driver

	// TCP says that the address is a host and a port. The processes then reach the store through proxies, which freeze.
	TCP bool

	// Phase is for how long faults happen with each number of slots; 0 means 7 s. With -short it is never more than 3 s.
	Phase time.Duration
}

// GroupOracle counts the leaders of a group. 200 goroutines in 4 processes contend for 3 slots, then for 5, then for 2,
// with leases of several lengths, while the processes are killed (kill -9) and replaced, stopped and continued, and
// their connections frozen. They release once, twice, or not at all.
//
// Nothing that the count rests on comes from the store. Each process notes for how long it trusted which lease, from the
// return of its acquisition on: instants that were read before a check that found it trusted, by a clock that all
// processes share, and reported at once, so that a kill takes none of them back. The count is of those intervals. What
// has to hold at every instant is
//
//   - no slot has two leaders, and none has a number that is not below that of its elector's slots;
//   - there are at most as many leaders as the elector of a leader has slots, for the one that has the most; so once the
//     last elector of 5 slots has released, it is 2;
//   - the fences of a slot grow.
//
// The largest number of leaders at one time is printed for each number of slots. No fault happens, and the test does not
// end, before it is that number, or too few would be as good.
//
// The processes are this test binary once more: GroupOracle calls itself there, so what comes before it in the test runs
// again.
func GroupOracle(t *testing.T, c OracleConfig) {
	t.Helper()
	c = c.withDefaults(t)
	if address, ok := os.LookupEnv(oracleEnv); ok {
		c.child(t, address)
		return
	}
	address := c.Start(t)
	o := new(oracle)
	for range oracleProcesses {
		o.seats = append(o.seats, c.newSeat(t, address))
	}
	o.watch(t, c.Phase)
	o.judge(t, o.end(t))
}

// withDefaults fills in the defaults and ends the test if c cannot be run.
func (c OracleConfig) withDefaults(t testing.TB) OracleConfig {
	t.Helper()
	if c.Start == nil || c.Dial == nil {
		t.Fatal("backendtest: OracleConfig.Start and Dial are required")
	}
	if c.Phase == 0 {
		c.Phase = defaultOraclePhase
	}
	if testing.Short() {
		c.Phase = min(c.Phase, shortOraclePhase)
	}
	return c
}
