package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/goleader/leader"
	"github.com/goleader/leader/schedule"
)

// ErrInvalid says that a configuration is wrong. The text of the error names everything that is.
var ErrInvalid = errors.New("invalid configuration")

// Option configures a [Table].
type Option struct{ f func(b *builder) }

// WithCron sets the parser of cron expressions, such as cron.ParseStandard of github.com/robfig/cron/v3. Without one, a
// job with such an expression is an error.
func WithCron[S schedule.Schedule](parse func(expression string) (S, error)) Option {
	return Option{func(b *builder) {
		b.cron = func(expression string) (schedule.Schedule, error) { return parse(expression) }
	}}
}

// WithSchedule gives options to the schedules of all jobs, such as schedule.WithLogger and schedule.WithReport. What the
// configuration sets wins.
func WithSchedule(opts ...schedule.Option) Option {
	opts = slices.Clone(opts)
	return Option{func(b *builder) { b.opts = append(b.opts, opts...) }}
}

// Table is jobs that are ready to run. [New] makes it.
type Table struct {
	jobs []*schedule.Job
}

// New returns the table of jobs that a configuration declares, which r runs with these actions, by the names of the jobs.
// It does no I/O, and starts nothing. Each job has an action, and each action a job, be it a disabled one. The error
// wraps [ErrInvalid], and reports everything that is wrong.
func New(r leader.Runner, c Config, actions map[string]leader.Action, opts ...Option) (*Table, error) {
	b := &builder{runner: r, config: c, actions: actions}
	for _, o := range opts {
		if o.f != nil {
			o.f(b)
		}
	}
	t := b.build()
	if err := errors.Join(b.errs...); err != nil {
		return nil, fmt.Errorf("jobs: %w:\n%w", ErrInvalid, err)
	}
	return t, nil
}

// Names are the names under which the jobs of the table run, in their order.
func (t *Table) Names() []string {
	names := make([]string, len(t.jobs))
	for i, j := range t.jobs {
		names[i] = j.Name()
	}
	return names
}

// Run runs all jobs until ctx ends, and returns nil when their actions have returned. Without jobs, because all are
// disabled, it waits for that as well. Schedules that turn out to be broken end all jobs, and are the error.
func (t *Table) Run(ctx context.Context) error {
	if len(t.jobs) == 0 {
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(t.jobs))
	var running sync.WaitGroup
	for i, j := range t.jobs {
		running.Go(func() {
			if errs[i] = j.Run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// builder makes a table, and notes what is wrong.
type builder struct {
	runner  leader.Runner
	config  Config
	actions map[string]leader.Action
	cron    func(expression string) (schedule.Schedule, error)
	opts    []schedule.Option
	errs    []error
}

func (b *builder) refuse(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *builder) build() *Table {
	prefix := b.prefix()
	for _, key := range b.config.unknown {
		b.refuse("%q is no setting", key)
	}
	b.checkCommon()
	if len(b.config.Jobs) == 0 {
		b.refuse("there are no jobs")
	}
	t := &Table{}
	seen := make(map[string]bool)
	for i, job := range b.config.Jobs {
		where := fmt.Sprintf("job %q", job.Name)
		switch {
		case job.Name == "":
			where = fmt.Sprintf("job %d", i+1)
			b.refuse("%s has no name", where)
		case seen[job.Name]:
			b.refuse("%s comes twice", where)
		case b.actions[job.Name] == nil:
			b.refuse("%s has no action; there are %v", where, slices.Sorted(maps.Keys(b.actions)))
		}
		seen[job.Name] = true
		d := &declared{Job: job, where: where, builder: b}
		if j := d.build(prefix); j != nil && !job.Disabled {
			t.jobs = append(t.jobs, j)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.actions)) {
		if !seen[name] {
			b.refuse("action %q has no job; one that is not to run is declared as disabled", name)
		}
	}
	return t
}
