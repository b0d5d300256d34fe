package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader/cmd/leaderctl/internal/store"
)

// finding is something that may cost safety, or does not work.
type finding struct {
	Check  string `json:"check"`
	Found  string `json:"found"`
	Advice string `json:"advice"`
}

// diagnosis is what doctor saw.
type diagnosis struct {
	Store    string    `json:"store"`
	Lease    float64   `json:"lease_seconds"`
	Typical  float64   `json:"round_trip_seconds"`
	Worst    float64   `json:"worst_round_trip_seconds"`
	Shortest float64   `json:"shortest_lease_seconds"`
	Clock    *float64  `json:"clock_offset_seconds,omitempty"` // nil where the store tells no time
	Margin   float64   `json:"margin_seconds"`
	Findings []finding `json:"findings"`

	code int
}

const doctorHelp = `Look for what may cost leases: settings of the store that lose data, a lease that is short for the round
trips, clocks that differ by more than the safety margin, missing tables and missing rights.

Rights are tried by taking the lease of the name leaderctl-doctor for a moment, unless --read-only is given. With findings
the exit code is 119, without 0; 116 if the store cannot be asked.`

func (t *tool) doctorCommand() *cobra.Command {
	var readOnly bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with a store and its settings, and say what to do",
		Long:  doctorHelp,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if t.lease < 0 {
				return usage(fmt.Errorf("--lease %v: it must be more than 0", t.lease))
			}
			ctx, cancel := t.within(c.Context())
			defer cancel()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			if _, err := t.elector(s); err != nil { // it checks the options
				return err
			}
			if t.lease == 0 {
				t.lease = leaseWithin(s.Driver, defaultLease)
			}
			d, err := t.diagnose(ctx, s, readOnly)
			if err != nil {
				return err
			}
			return t.showDiagnosis(d)
		},
	}
	c.Flags().DurationVar(&t.lease, "lease", 0, "the lease time that is used (default 1m, or what the store allows)")
	c.Flags().BoolVar(&readOnly, "read-only", false, "write nothing, and so find no missing rights to write")
	return c
}

// diagnose makes all checks. The error says that the store cannot be asked.
func (t *tool) diagnose(ctx context.Context, s *store.Store, readOnly bool) (*diagnosis, error) {
	d := &diagnosis{
		Store: s.Driver.Name(), Lease: t.lease.Seconds(), Margin: marginOf(t.lease).Seconds(), Findings: []finding{},
	}
	x := &examination{tool: t, store: s, diagnosis: d}
	for _, check := range []func(ctx context.Context) error{x.reach, x.roundTrips, x.clock, x.settings, x.history} {
		if err := check(ctx); err != nil {
			return nil, err
		}
		if d.code != 0 {
			return d, nil // nothing else can be asked
		}
	}
	if !readOnly {
		if err := x.rights(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// marginOf is the default safety margin of a lease time.
func marginOf(lease time.Duration) time.Duration {
	m := min(max(lease/10, 50*time.Millisecond), 2*time.Second)
	return min(lease/2, max(m, lease/1000))
}

func (t *tool) showDiagnosis(d *diagnosis) error {
	var result error
	if len(d.Findings) > 0 {
		result = exit(exitFindings, nil)
	}
	if t.json {
		if err := t.printJSON(d); err != nil {
			return err
		}
		return result
	}
	rows := [][]string{{"store", d.Store}, {"lease", asDuration(d.Lease).String()}}
	if d.Typical > 0 {
		trip := fmt.Sprintf("%v, at worst %v", asDuration(d.Typical), asDuration(d.Worst))
		rows = append(rows, []string{"round trip", trip},
			[]string{"shortest lease", asDuration(d.Shortest).String() + " or more, which leaves ten round trips"})
	}
	if d.Clock != nil {
		rows = append(rows, []string{"store's clock", fmt.Sprintf("%v from this machine's, margin %v", asDuration(*d.Clock),
			asDuration(d.Margin))})
	}
	if err := t.table(rows); err != nil {
		return err
	}
	for _, f := range d.Findings {
		fmt.Fprintf(t.out, "\n! %s: %s\n  %s\n", printable(f.Check), printable(t.text(f.Found)), printable(t.text(f.Advice)))
	}
	if len(d.Findings) == 0 {
		fmt.Fprintln(t.out, "\nnothing found")
	}
	return result
}

func asDuration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}
