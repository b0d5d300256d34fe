package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/goleader/leader"
)

// Missed says what becomes of fire times that were missed.
type Missed uint8

const (
	// Skip leaves them out: the job goes on with the next fire time.
	Skip Missed = iota
	// RunOnce makes up for the newest of them, once, as soon as it can. A node that finds the name taken waits until the
	// next fire time for its turn.
	RunOnce
)

// String returns the policy's name.
func (m Missed) String() string {
	switch m {
	case Skip:
		return "Skip"
	case RunOnce:
		return "RunOnce"
	}
	return "Missed(?)"
}

// Option configures a [Job].
type Option struct{ f func(c *config) }

// config is what the options make of the defaults.
type config struct {
	missed Missed
	jitter time.Duration
	keep   time.Duration // 0 = by the period
	drain  time.Duration
	logger *slog.Logger
	report func(context.Context, Tick)
	run    []leader.RunOption

	keepGiven, missedGiven bool
}

// WithMissed sets what becomes of fire times that were missed. The default is [Skip]. It has no meaning with a [Delay].
func WithMissed(m Missed) Option {
	return Option{func(c *config) { c.missed, c.missedGiven = m, true }}
}

// WithJitter makes each node wait a random time of up to d after a fire time, but at most half of the time until the
// next one, before it asks for the lease. With a [Delay], it makes the pause longer by that. It must not be negative; the
// default is 0.
func WithJitter(d time.Duration) Option {
	return Option{func(c *config) { c.jitter = d }}
}

// WithKeep sets for how long a fire time stays marked as run. Clocks may differ by half of that, and a fire time that is
// older than half of it is run no more, be it that it was missed or that the lease was waited for. It must be positive,
// and at least four times the jitter. The default is two hours, or two periods if that is longer. It has no meaning with
// a [Delay].
//
// Each mark is a record in the store: a job that is due every second has 7,200 of them in two hours. Where clocks are
// known to agree, a shorter time will do.
func WithKeep(d time.Duration) Option {
	return Option{func(c *config) { c.keep, c.keepGiven = d, true }}
}

// WithDrain lets an action that is at work when the context of Run ends go on for d before its own context ends. It must
// not be negative. The default is 0: both end together. Run returns when the action has returned in any case.
func WithDrain(d time.Duration) Option {
	return Option{func(c *config) { c.drain = d }}
}

// WithLogger sets where failures and missed fire times go. The default is [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return Option{func(c *config) { c.logger = l }}
}

// WithReport has f called after each fire time that this node came to, whatever became of it. The job waits for it.
// With a [Delay] it is called after the pause, which belongs to the run.
func WithReport(f func(ctx context.Context, t Tick)) Option {
	return Option{func(c *config) { c.report = f }}
}

// WithRunOptions gives options to every run, such as leader.WithLeaseTime. The run key is the job's own.
func WithRunOptions(opts ...leader.RunOption) Option {
	opts = slices.Clone(opts)
	return Option{func(c *config) { c.run = append(c.run, opts...) }}
}

// Tick is what became of a fire time on this node.
type Tick struct {
	Name   string
	Fire   time.Time // zero with a [Delay]
	Missed bool      // it was missed, and left out: there is no result
	Result leader.RunResult
	Err    error // of RunIfLeader: the action did not run
}

// check reports all violations of the options at once.
func (c *config) check(when Schedule) error {
	var errs []error
	refuse := func(option string, value any, rule string) {
		errs = append(errs, fmt.Errorf("%w: %s(%v): %s", leader.ErrInvalidOption, option, value, rule))
	}
	switch when := when.(type) {
	case nil:
		errs = append(errs, fmt.Errorf("%w: the schedule is nil", leader.ErrInvalidOption))
	case Every:
		if when <= 0 {
			refuse("Every", time.Duration(when), "must be positive")
		}
	case Delay:
		if when <= 0 {
			refuse("Delay", time.Duration(when), "must be positive")
		}
		if c.keepGiven {
			refuse("WithKeep", c.keep, "has no meaning with a Delay")
		}
		if c.missedGiven {
			refuse("WithMissed", c.missed, "has no meaning with a Delay")
		}
	}
	if c.missed > RunOnce {
		refuse("WithMissed", int(c.missed), "must be Skip or RunOnce")
	}
	if c.jitter < 0 {
		refuse("WithJitter", c.jitter, "must not be negative")
	}
	switch {
	case !c.keepGiven:
	case c.keep <= 0:
		refuse("WithKeep", c.keep, "must be positive")
	case c.jitter > c.keep/4:
		refuse("WithKeep", c.keep, fmt.Sprintf("must be at least four times the jitter, which is %v", c.jitter))
	}
	if c.drain < 0 {
		refuse("WithDrain", c.drain, "must not be negative")
	}
	return errors.Join(errs...)
}

// skipped reports whether the action was not run because of what others do or did.
func (t Tick) skipped() bool { return t.Result.Outcome == leader.Skipped }
