package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/cmd/leaderctl/internal/child"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
)

// The times of a run, which follow from the lease time.
const (
	defaultLease = 60 * time.Second
	// shortestLease leaves enough time to end a command.
	shortestLease = time.Second
	defaultGrace  = 10 * time.Second
	maxReserve    = time.Second
	minReserve    = 50 * time.Millisecond
)

type runFlags struct {
	wait, minLease, maxHold, keep time.Duration
	grace                         optionalTime
	node, runKey                  string
	retryFailed, campaign         bool
	slots                         int
	metadata                      map[string]string
}

// optionalTime is the value of a flag that also zero can be given to. It implements [pflag.Value].
type optionalTime struct {
	time.Duration

	given bool
}

// Set reads a duration.
func (o *optionalTime) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil {
		o.Duration, o.given = d, true
	}
	return err
}

// String is empty as long as nothing was given.
func (o *optionalTime) String() string {
	if !o.given {
		return ""
	}
	return o.Duration.String()
}

// Type is what help calls the value.
func (*optionalTime) Type() string { return "duration" }

const runHelp = `Run a command if this node gets the lease of NAME, at once or within --wait, and release it afterwards.

The command runs in a process group of its own, with LEADER_NAME, LEADER_NODE, LEADER_FENCE and, with --slots, LEADER_SLOT.
The lease is renewed while it runs. If that does not succeed, the group gets TERM, and after --grace KILL, before the lease
can go to another node; if the store says that the lease is gone, KILL at once. HUP, INT, QUIT, TERM, USR1 and USR2 are
passed on. If the tool itself is killed or stopped, a guard process ends the group in time.

Exit codes: the command's own, 128 and the number of the signal that ended it, 126 and 127 if it cannot be run; and
113 usage, 114 skipped, 115 lease lost, 116 store unavailable, 117 store refuses, 118 internal.`

func (t *tool) runCommand() *cobra.Command {
	var o runFlags
	c := &cobra.Command{
		Use:   "run NAME -- COMMAND [ARG…]",
		Short: "Run a command if this node leads, and end it before another one does",
		Long:  runHelp,
		Example: "  leaderctl run nightly-report --wait 1m -- ./report.sh\n" +
			"  leaderctl run feed --campaign -- /usr/local/bin/feeder --port 80",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return errors.New("run wants a name, two dashes and a command: run NAME -- COMMAND")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.settle(c.Flags().Changed); err != nil {
				return usage(err)
			}
			t.patient = o.campaign
			return t.run(c.Context(), args[0], args[1:], &o)
		},
	}
	f := c.Flags()
	f.DurationVar(&t.lease, "lease", 0, "how long the lease lasts unless renewed (default 1m, or what the store allows)")
	f.DurationVar(&o.wait, "wait", 0, "how long to wait for a lease that another holds")
	f.BoolVar(&o.campaign, "campaign", false, "wait for ever, and go on after a lease was lost")
	f.DurationVar(&o.minLease, "min-lease", 0, "keep the name taken that long, even if the command is quicker;\n"+
		"a --lease that is not given is at least as long, one that is given must be")
	f.DurationVar(&o.maxHold, "max-hold", 0, "end the command at that age")
	f.Var(&o.grace, "grace", "time from TERM to KILL, at most a third of the lease (default 10s, or a quarter)")
	f.StringVar(&o.node, "node", "", "`name` of this node for people (default host, process and a random part)")
	f.StringVar(&o.runKey, "run-key", "", "run once for this `key`, on all nodes together")
	f.DurationVar(&o.keep, "keep", 48*time.Hour, "how long a run key is remembered")
	f.BoolVar(&o.retryFailed, "retry-failed", false, "free the run key if the command fails")
	f.IntVar(&o.slots, "slots", 0, "let up to `N` nodes lead, each in a slot")
	f.StringToStringVar(&o.metadata, "meta", nil, "facts that inspect shows, as `key=value`")
	return c
}

// settle decides between flags that do not go together. It is a mistake to give both on the command line; else what is
// there is stronger than what the environment or the file says. given reports whether a flag is on the command line.
func (o *runFlags) settle(given func(flag string) bool) error {
	single := o.runKey != "" || o.wait != 0 && given("wait")
	switch {
	case o.campaign && single && given("campaign"):
		return errors.New("--campaign waits for ever and runs again: it goes with neither --wait nor --run-key")
	case single:
		o.campaign = false
	case o.campaign:
		o.wait = 0
	}
	if o.retryFailed && o.runKey == "" && given("retry-failed") {
		return errors.New("--retry-failed frees a run key: it goes with --run-key alone")
	}
	return nil
}

// runner is what electors of one leader and of groups have in common.
type runner interface {
	leader.Runner
	Campaign(ctx context.Context, name string, lead leader.Action, opts ...leader.RunOption) error
}

// run runs a command and returns an exitError with its code.
func (t *tool) run(ctx context.Context, name string, args []string, o *runFlags) error {
	program, err := findProgram(args[0])
	if err != nil {
		return err
	}
	outliveReaders()
	relay := newRelay(ctx)
	defer relay.close()
	s, end, err := t.open(relay.ctx) //nolint:contextcheck // it is made of ctx
	if err != nil {
		return err
	}
	defer end()
	j := &job{tool: t, relay: relay, name: name, group: o.slots != 0, renewed: make(chan struct{}, 1)}
	if err := j.plan(s, program, args, o); err != nil {
		return err
	}
	record, flush := t.recorder(s, o.node)
	defer flush(ctx)
	hooks := leader.JoinHooks(j.hooks(), j.told(record))
	if o.campaign {
		hooks = leader.JoinHooks(hooks, j.terms())
	}
	e, err := t.runnerOn(s, o, hooks)
	if err != nil {
		return err
	}
	if o.campaign {
		return j.campaign(e)
	}
	return j.once(e, o)
}

// findProgram looks a program up before anything is asked of the store.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, os.ErrPermission):
		return "", exit(exitCannotRun, err)
	}
	return "", exit(exitNotFound, err)
}

func (t *tool) runnerOn(s *store.Store, o *runFlags, hooks leader.Hooks) (runner, error) {
	opts := []leader.Option{leader.WithLeaseTime(t.lease), leader.WithHooks(hooks)}
	if o.node != "" {
		opts = append(opts, leader.WithNodeID(o.node))
	}
	if o.slots != 0 {
		return leader.NewGroup(unadvised{s.Driver}, o.slots, append(t.options(), opts...)...)
	}
	return t.elector(s, opts...)
}

// plan checks the flags and what follows from them.
func (j *job) plan(s *store.Store, program string, args []string, o *runFlags) error {
	t := j.tool
	if err := t.planLease(s.Driver, o.minLease); err != nil {
		return usage(err)
	}
	grace, err := o.graceWithin(t.lease)
	if err != nil {
		return usage(err)
	}
	if o.maxHold < 0 {
		return usage(fmt.Errorf("--max-hold %v: it must not be negative", o.maxHold))
	}
	j.maxHold = o.maxHold
	j.command = child.Command{
		Path: program, Args: args, Grace: grace, Reserve: min(max(t.lease/20, minReserve), maxReserve),
	}
	facts := map[string]string{"command": filepath.Base(program)}
	maps.Copy(facts, o.metadata)
	j.options = []leader.RunOption{leader.WithMetadata(facts)}
	if o.minLease != 0 {
		j.options = append(j.options, leader.WithMinLease(o.minLease))
	}
	return nil
}

// planLease chooses the lease time if none was given, and checks it.
func (t *tool) planLease(d backend.Driver, minLease time.Duration) error {
	given := t.lease != 0
	if !given {
		t.lease = leaseWithin(d, max(defaultLease, minLease))
	}
	switch {
	case t.lease < shortestLease:
		return fmt.Errorf("--lease %v: at least %v, or a command cannot be ended in time", t.lease, shortestLease)
	case minLease > t.lease && given:
		return fmt.Errorf("--min-lease %v, --lease %v: a minimum lease must not be longer than the lease", minLease, t.lease)
	case minLease > t.lease:
		return fmt.Errorf("--min-lease %v: the store keeps leases for at most %v", minLease, t.lease)
	}
	return nil
}

// graceWithin is the time from TERM to KILL under a lease.
func (o *runFlags) graceWithin(lease time.Duration) (time.Duration, error) {
	if !o.grace.given {
		return min(defaultGrace, lease/4), nil
	}
	if o.grace.Duration < 0 || o.grace.Duration > lease/3 {
		return 0, fmt.Errorf("--grace %v: at most a third of the lease of %v", o.grace.Duration, lease)
	}
	return o.grace.Duration, nil
}

// leaseWithin is a lease time, moved inside the limits of a driver.
func leaseWithin(d backend.Driver, lease time.Duration) time.Duration {
	l, ok := backend.As[backend.Limited](d)
	if !ok {
		return lease
	}
	limits := l.Limits()
	if limits.MaxTTL > 0 {
		lease = min(lease, limits.MaxTTL)
	}
	return max(lease, limits.MinTTL)
}
