package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/schedule"
)

// checkCommon notes which settings of all jobs cannot be read, once, and takes them away.
func (b *builder) checkCommon() {
	d := &declared{where: "all jobs", builder: b}
	c := &b.config.Settings
	for _, s := range c.durations() {
		if _, ok := d.duration(s.key, *s.text); !ok {
			*s.text = ""
		}
	}
	if _, ok := d.missed(c.Missed); !ok {
		c.Missed = ""
	}
	if _, ok := d.failureMode(c.FailureMode); !ok {
		c.FailureMode = ""
	}
	if _, ok := d.place(c.TimeZone); !ok {
		c.TimeZone = ""
	}
}

// timed is a setting that is a duration, and the option that it sets.
type timed struct {
	key    string
	text   *Duration
	option func(time.Duration) schedule.Option
}

// durations are the settings that are durations, always in one order.
func (s *Settings) durations() []timed {
	return []timed{
		{"jitter", &s.Jitter, schedule.WithJitter},
		{"keep", &s.Keep, schedule.WithKeep},
		{"drain", &s.Drain, schedule.WithDrain},
		{"wait", &s.Wait, ofRuns(leader.WithWaitTime)},
		{"lease", &s.Lease, ofRuns(leader.WithLeaseTime)},
		{"minLease", &s.MinLease, ofRuns(leader.WithMinLease)},
		{"maxHold", &s.MaxHold, ofRuns(leader.WithMaxHold)},
	}
}

// ofRuns makes an option of runs one of a schedule.
func ofRuns(option func(time.Duration) leader.RunOption) func(time.Duration) schedule.Option {
	return func(d time.Duration) schedule.Option { return schedule.WithRunOptions(option(d)) }
}

// options are what the settings make of the options of a job that is due by when.
func (d *declared) options(when schedule.Schedule) []schedule.Option {
	own, common := d.Settings, d.builder.config.Settings
	if delay, ok := when.(schedule.Delay); ok {
		common.Missed, common.Keep, common.RetryFailed, common.AutoExtend = "", "", nil, nil // defaults without meaning
		d.checkHold(time.Duration(delay), cmp.Or(own.MaxHold, common.MaxHold))
	}
	opts := slices.Clone(d.builder.opts)
	defaults := common.durations()
	for i, s := range own.durations() {
		text := cmp.Or(*s.text, *defaults[i].text)
		if parsed, ok := d.duration(s.key, text); ok && text != "" {
			opts = append(opts, s.option(parsed))
		}
	}
	if text := cmp.Or(own.Missed, common.Missed); text != "" {
		if missed, ok := d.missed(text); ok {
			opts = append(opts, schedule.WithMissed(missed))
		}
	}
	return append(opts, schedule.WithRunOptions(d.runOptions(own, common)...))
}

// checkHold notes what would end the lease of a job with a delay, and so its pause, before the pause is over.
func (d *declared) checkHold(delay time.Duration, maxHold Duration) {
	if d.AutoExtend != nil && !*d.AutoExtend {
		d.refuse("autoExtend: a job with a delay holds its lease until the pause is over")
	}
	if hold, err := maxHold.Parse(); err == nil && hold > 0 && hold <= delay {
		d.refuse("maxHold: %v ends the pause of a delay of %v", hold, delay)
	}
}

// runOptions are those that are no durations.
func (d *declared) runOptions(own, common Settings) (opts []leader.RunOption) {
	if text := cmp.Or(own.FailureMode, common.FailureMode); text != "" {
		if mode, ok := d.failureMode(text); ok {
			opts = append(opts, leader.WithFailureMode(mode))
		}
	}
	switch extend := cmp.Or(own.AutoExtend, common.AutoExtend); {
	case extend == nil:
	case *extend:
		opts = append(opts, leader.WithAutoExtend())
	default:
		opts = append(opts, leader.WithoutAutoExtend())
	}
	if retry := cmp.Or(own.RetryFailed, common.RetryFailed); retry != nil && *retry {
		opts = append(opts, leader.WithRetryFailedRun())
	}
	return opts
}

// duration parses a setting, and notes what is wrong with it. "" is 0.
func (d *declared) duration(key string, text Duration) (parsed time.Duration, ok bool) {
	if text == "" {
		return 0, true
	}
	parsed, err := text.Parse()
	if err != nil {
		d.refuse("%s: %w", key, err)
	}
	return parsed, err == nil
}

// place is where the time of day is meant, and notes if there is none of that name. "" is UTC.
func (d *declared) place(zone string) (place *time.Location, ok bool) {
	place, err := time.LoadLocation(zone)
	if err == nil && place == time.Local {
		err = fmt.Errorf("%q is another one on each node", zone)
	}
	if err != nil {
		d.refuse("timeZone: %w", err)
		return time.UTC, false
	}
	return place, true
}

func (d *declared) missed(text string) (m schedule.Missed, ok bool) {
	return pick(d, "missed", text, schedule.Skip, schedule.RunOnce)
}

func (d *declared) failureMode(text string) (m leader.FailureMode, ok bool) {
	return pick(d, "failureMode", text, leader.Rethrow, leader.Skip, leader.FailOpenRun)
}

// pick is the value whose name a text is, whatever its case, and notes if there is none. "" is the first one.
func pick[V interface{ String() string }](d *declared, key, text string, values ...V) (v V, ok bool) {
	names := make([]string, len(values))
	for i, value := range values {
		name := value.String()
		if text == "" || strings.EqualFold(name, text) {
			return value, true
		}
		names[i] = strings.ToLower(name[:1]) + name[1:]
	}
	d.refuse("%s: %q is none of %s", key, text, strings.Join(names, ", "))
	return v, false
}
