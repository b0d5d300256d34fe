package jobs

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/goleader/leader/schedule"
)

// declared is one job on its way into the table.
type declared struct {
	Job

	where   string // the job, in errors
	builder *builder
}

func (d *declared) refuse(format string, args ...any) {
	d.builder.refuse("%s: "+format, append([]any{d.where}, args...)...)
}

// build makes the job's schedule, or notes what is wrong with it.
func (d *declared) build(prefix string) *schedule.Job {
	for _, key := range d.unknown {
		d.refuse("%q is no setting", key)
	}
	when := d.when()
	opts := d.options(when)
	action := d.builder.actions[d.Name]
	if action == nil {
		action = func(context.Context) error { return nil } // noted already; the rest is checked with this one
	}
	if when == nil {
		when = schedule.Every(time.Hour) // likewise
	}
	j, err := schedule.New(d.builder.runner, prefix+d.Name, when, action, opts...)
	if err != nil {
		d.refuse("%w", err)
	}
	return j
}

// when is the schedule of the job, nil if there is none.
func (d *declared) when() schedule.Schedule {
	given := 0
	for _, text := range []string{string(d.Every), string(d.Delay), d.Cron} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		d.refuse("needs one of every, delay and cron, and has %d", given)
		return nil
	}
	every := d.Every
	if rate, ok := strings.CutPrefix(d.Cron, "@every "); ok {
		every = Duration(strings.TrimSpace(rate))
	}
	if d.TimeZone != "" && (d.Delay != "" || every != "") {
		d.refuse("timeZone has a meaning with times of day alone")
	}
	if d.Delay != "" {
		delay, ok := d.duration("delay", d.Delay)
		if !ok {
			delay = time.Hour // noted; the rest is checked with this one
		}
		return schedule.Delay(delay)
	}
	if every != "" {
		if rate, ok := d.duration("every", every); ok {
			return schedule.Every(rate)
		}
		return nil
	}
	return d.cron()
}

// cron is the schedule of a cron expression.
func (d *declared) cron() schedule.Schedule {
	place, _ := d.place(cmp.Or(d.TimeZone, d.builder.config.TimeZone))
	if d.builder.cron == nil {
		d.refuse("cron %q: the program has no parser of cron expressions", d.Cron)
		return nil
	}
	if zone := strings.TrimPrefix(d.Cron, "CRON_"); strings.HasPrefix(zone, "TZ=") {
		d.refuse("cron %q: a zone is given by timeZone", d.Cron)
		return nil
	}
	parsed, err := d.builder.cron(d.Cron)
	if err != nil {
		d.refuse("cron %q: %w", d.Cron, err)
		return nil
	}
	when := schedule.In(place, parsed)
	if when.Next(time.Now()).IsZero() {
		d.refuse("cron %q is never due", d.Cron)
		return nil
	}
	return when
}
