package backendtest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// seeds is how many names one fault hits, each in another phase of its renewal.
	seeds = 20

	defaultLease = 1500 * time.Millisecond
)

// OverlapConfig is what [Overlap] has to know of a store. Start, Dial and Fidelity are required.
type OverlapConfig struct {
	// Start starts a fresh, empty store that ends with the test, and returns its address, of which only Dial needs to
	// make sense.
	Start func(t testing.TB) (address string)

	// Dial opens a client of the store at an address, which ends with the test. It is also called in a child process,
	// which knows nothing but the address.
	Dial func(t testing.TB, address string) backend.Driver

	// Fidelity says what stands behind the clients. Where it is Embedded, a process that is stopped in the middle of a
	// write may hold up all others until it continues.
	Fidelity Fidelity

	// Lease is the lease time of the holder and of the contender; 0 means 1.5 s. A fault takes two or three of them.
	Lease time.Duration

	// Delay is what a take-over may take beyond the lease of a holder that died, because of the store: a disk that all
	// of them wait for. 0 means 200 ms. What is due to Limits.Late comes on top.
	Delay time.Duration

	// Faults are what happens to connections and to the store. What happens to the holder's process need not be listed.
	Faults []Fault

	// Skip names faults that are left out, each with the reason, which is printed.
	Skip map[string]string
}

// A Fault happens to a holder of leases, or to the store below it, while another node contends for the same names.
type Fault struct {
	// Name is that of the subtest.
	Name string

	// Effect is what has to come of it.
	Effect Effect

	// Lease is the lease time; 0 means that of OverlapConfig. A fault that must not cost a lease needs a long one: after a
	// fault of 40 % of it, a lease that was due for renewal when the fault began may have a thirtieth of its time left for
	// the next try, and that has to be more than what holds up a test on a busy machine.
	Lease time.Duration

	// Lasts is the time from the fault to its healing. 0 means until the contender leads every name if the effect is
	// LosesAll, else no time.
	Lasts time.Duration

	// Within bounds the time from the healing until the contender leads every name that was lost. 0 means that only
	// the suite's patience bounds it.
	Within time.Duration

	// Stage prepares a fresh store for the fault.
	Stage func(t testing.TB) Stage
}

// Stage is a store on which a fault is about to happen.
type Stage struct {
	// Holder and Contender are the addresses by which the two sides reach the store.
	Holder, Contender string

	// Do makes the fault happen, and returns what heals it, or nil if it is over.
	Do func(t testing.TB) (heal func())
}

// Effect says what a fault does to leases.
type Effect int

// The effects.
const (
	LosesAll  Effect = iota + 1 // the holder loses every name, and the contender leads it
	LosesNone                   // the holder keeps every lease, undisturbed
	LosesSome                   // each lease is either kept or lost, as if by one of the above
)

// Overlap runs the whole stack, the engine over a driver over a real store, through faults. A holder renews leases of 20
// names, in 20 phases of their renewal, while a contender campaigns for all of them. Then the fault happens.
//
// The overlap is the time during which both trust the lease of one name. It must never be above zero: it is measured
// for every name, and the largest is printed with the number of names. It is negative where a gap was left. The
// instants that count on both sides were read before a check that found the lease trusted, by a clock that processes
// share. So each of them lies in a time of trust whatever delays the process, and an overlap above zero is proof that
// two trusted one lease, not a sign of a slow machine.
//
// What else has to hold: a lease that is lost ends its context with leader.ErrLeaseLost; the contender leads what was
// lost, by a greater fence, and is not disturbed by what the holder had sent before; in the end each name has one
// holder, and none once both have gone.
//
// Beside the configured faults there are
//
//   - StoppedHolder: a holding process is stopped (SIGSTOP), replaced and continued. Its late writes to a counter that
//     looks at fences are refused.
//   - KilledHolder: a holding process is killed (kill -9), and replaced within its lease plus 200 ms.
//   - HandOff: no fault; what a holder releases is led by the waiting contender within one notification.
//
// The processes are this test binary once more: Overlap calls itself there, so what comes before it in the test runs
// again.
func Overlap(t *testing.T, c OverlapConfig) {
	t.Helper()
	c = c.withDefaults(t)
	if address, ok := os.LookupEnv(childEnv); ok {
		c.child(t, address)
		return
	}
	for _, f := range c.Faults {
		c.run(t, f.Name, func(t *testing.T) { c.suffer(t, f) })
	}
	test := t.Name()
	c.run(t, "StoppedHolder", func(t *testing.T) { c.stopHolder(t, test) })
	c.run(t, "KilledHolder", func(t *testing.T) { c.killHolder(t, test) })
	c.run(t, "HandOff", c.handOff)
}

func (c OverlapConfig) run(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if reason, ok := c.Skip[name]; ok {
			t.Skipf("skipped by OverlapConfig.Skip: %s", reason)
		}
		f(t)
	})
}

// withDefaults fills in the defaults and ends the test if c cannot be run.
func (c OverlapConfig) withDefaults(t testing.TB) OverlapConfig {
	t.Helper()
	var errs []error
	if c.Start == nil || c.Dial == nil {
		errs = append(errs, errors.New("OverlapConfig.Start and Dial are required"))
	}
	if c.Fidelity == "" {
		errs = append(errs, errors.New("OverlapConfig.Fidelity is required"))
	}
	for _, f := range c.Faults {
		if f.Name == "" || f.Stage == nil || f.Effect < LosesAll || f.Effect > LosesSome {
			errs = append(errs, errors.New("OverlapConfig.Faults: Name, Effect and Stage are required, have "+f.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("backendtest: %v", err)
	}
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	return c
}
