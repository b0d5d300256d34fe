// Command ratio measures this library beside what it is made of and beside its peers, in turns within one process, and
// prints one line for each figure:
//
//	<backend> <figure> <value> <low> <high>
//
// Within each round the medians of all who take part are compared; value is the median over the rounds, low and high
// are the 10th and the 90th percentile. README.md, one folder up, says what each figure means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

func main() {
	if os.Getenv(sleepless) != "" {
		spin()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	sleep, err := keepAwake(ctx)
	if err == nil {
		err = command(ctx, os.Args[1:], os.Stdout)
	}
	sleep()
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "ratio:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	backend string
	plan    contest.Plan
	figures *regexp.Regexp // nil means all
	long    bool
	renew   time.Duration
	idle    time.Duration
	check   bool
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("ratio", flag.ContinueOnError)
	flags.StringVar(&s.backend, "backend", "redis",
		"`name` of the backend: "+strings.Join(slices.Sorted(maps.Keys(backends)), ", "))
	flags.IntVar(&s.plan.Rounds, "rounds", 20, "`number` of rounds")
	flags.IntVar(&s.plan.Ops, "ops", 300, "operations of each contestant in a round, about")
	figures := flags.String("figures", "", "take only the figures that match this regular `expression`, long ones too")
	flags.BoolVar(&s.long, "long", false, "take also the figures that need a minute")
	flags.DurationVar(&s.renew, "renew", time.Minute, "how long the leases of renew10k and renew2k are held")
	flags.DurationVar(&s.idle, "idle", 10*time.Second, "how long the waiters of waiters1000 wait")
	flags.BoolVar(&s.check, "check", false, "compare with the bars and fail if one is missed")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.plan.Rounds < 1 || s.plan.Ops < 1 || flags.NArg() > 0 {
		return s, errors.New("want at least one round of one operation, and no arguments")
	}
	if *figures == "" {
		return s, nil
	}
	var err error
	s.figures, err = regexp.Compile(*figures)
	return s, err
}

func command(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	rigUp := backends[s.backend]
	if rigUp == nil {
		return fmt.Errorf("no backend %q", s.backend)
	}
	var taken []figure
	err = testserver.Run(ctx, func(t testserver.TB) {
		for _, m := range rigUp(t, &s) {
			if !s.wants(m) {
				continue
			}
			list, err := m.take()
			if err != nil {
				t.Fatalf("%v: %v", m.figures, err)
			}
			taken = append(taken, s.report(out, list)...)
		}
	})
	if err != nil || !s.check {
		return err
	}
	return check(out, s.backend, taken)
}

// wants reports whether the measurement is to be made.
func (s *settings) wants(m measurement) bool {
	if s.figures == nil {
		return s.long || !m.long
	}
	return slices.ContainsFunc(m.figures, s.figures.MatchString)
}

// report prints those figures of a measurement that are wanted, and returns them.
func (s *settings) report(out io.Writer, list []figure) []figure {
	list = slices.DeleteFunc(list, func(f figure) bool { return s.figures != nil && !s.figures.MatchString(f.name) })
	for _, f := range list {
		fmt.Fprintf(out, "%s %s %s %s %s\n", s.backend, f.name, short(f.Value), short(f.Low), short(f.High))
	}
	return list
}

// short keeps three significant digits and never uses an exponent.
func short(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
