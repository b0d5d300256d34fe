package jobs

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Config is a table of jobs and what they have in common. The zero value of a setting means that it is not given.
type Config struct {
	// Service is the name of the service. The default is the last element of the path of the program's main package.
	Service string `json:"service,omitempty" yaml:"service,omitempty" env:"SERVICE"`
	// Prefix comes before the names of the jobs, so that services which share a store do not meet. The default is the
	// name of the service and a colon. It may be given and empty.
	Prefix *string `json:"prefix,omitempty" yaml:"prefix,omitempty" env:"PREFIX"`
	// Settings are those of all jobs that do not have their own. Where one has no meaning for a job, it is ignored.
	Settings `mapstructure:",squash" yaml:",inline"`
	// Jobs are the jobs. There must be one.
	Jobs []Job `json:"jobs" yaml:"jobs" envPrefix:"JOBS_"`

	unknown []string // keys that are no settings
}

// Job declares one job. It is due by one of Every, Delay and Cron.
type Job struct {
	// Name is that of the action, and with the prefix that of the leadership.
	Name string `json:"name" yaml:"name" env:"NAME"`
	// Every is a fixed rate, see schedule.Every.
	Every Duration `json:"every,omitempty" yaml:"every,omitempty" env:"EVERY"`
	// Delay is a fixed pause after each run, see schedule.Delay.
	Delay Duration `json:"delay,omitempty" yaml:"delay,omitempty" env:"DELAY"`
	// Cron is an expression for the parser that was given by [WithCron]. "@every 5m" needs none, and is Every.
	Cron string `json:"cron,omitempty" yaml:"cron,omitempty" env:"CRON"`
	// Disabled jobs are checked, and not run.
	Disabled bool `json:"disabled,omitempty" yaml:"disabled,omitempty" env:"DISABLED"`
	// Settings are the job's own.
	Settings `mapstructure:",squash" yaml:",inline"`

	unknown []string
}

// Settings are how a job is run. Each has a default.
type Settings struct {
	// FailureMode is rethrow, the default, or skip or failOpenRun, see leader.FailureMode. A job with fire times cannot
	// be run without a lease.
	FailureMode string `json:"failureMode,omitempty" yaml:"failureMode,omitempty" env:"FAILURE_MODE"`
	// Wait, Lease, MinLease and MaxHold are the options of these names: leader.WithWaitTime, WithLeaseTime, WithMinLease,
	// WithMaxHold.
	Wait     Duration `json:"wait,omitempty" yaml:"wait,omitempty" env:"WAIT"`
	Lease    Duration `json:"lease,omitempty" yaml:"lease,omitempty" env:"LEASE"`
	MinLease Duration `json:"minLease,omitempty" yaml:"minLease,omitempty" env:"MIN_LEASE"`
	MaxHold  Duration `json:"maxHold,omitempty" yaml:"maxHold,omitempty" env:"MAX_HOLD"`
	// AutoExtend is whether the lease is renewed until the action returns. It is the default, and needed with a Delay.
	AutoExtend *bool `json:"autoExtend,omitempty" yaml:"autoExtend,omitempty" env:"AUTO_EXTEND"`
	// RetryFailed lets another node run a fire time whose action has failed, see leader.WithRetryFailedRun.
	RetryFailed *bool `json:"retryFailed,omitempty" yaml:"retryFailed,omitempty" env:"RETRY_FAILED"`
	// Missed is skip, the default, or runOnce, see schedule.Missed.
	Missed string `json:"missed,omitempty" yaml:"missed,omitempty" env:"MISSED"`
	// Jitter, Keep and Drain are the options of these names of package schedule.
	Jitter Duration `json:"jitter,omitempty" yaml:"jitter,omitempty" env:"JITTER"`
	Keep   Duration `json:"keep,omitempty" yaml:"keep,omitempty" env:"KEEP"`
	Drain  Duration `json:"drain,omitempty" yaml:"drain,omitempty" env:"DRAIN"`
	// TimeZone is the place whose time of day a cron expression means, such as Europe/Berlin. The default is UTC, whatever
	// the zone of a node, so that all nodes mean the same instants. Where daylight saving changes, each time of day comes
	// once, see schedule.In.
	TimeZone string `json:"timeZone,omitempty" yaml:"timeZone,omitempty" env:"TIME_ZONE"`
}

// UnmarshalJSON decodes, and remembers keys that are no settings for [New] to report.
func (c *Config) UnmarshalJSON(text []byte) error {
	type plain Config
	return decode((*plain)(c), &c.unknown, strings.EqualFold, func(to any) error { return json.Unmarshal(text, to) })
}

// UnmarshalYAML decodes, and remembers keys that are no settings for [New] to report.
func (c *Config) UnmarshalYAML(unmarshal func(to any) error) error {
	type plain Config
	return decode((*plain)(c), &c.unknown, equal, unmarshal)
}

// UnmarshalJSON decodes, and remembers keys that are no settings for [New] to report.
func (j *Job) UnmarshalJSON(text []byte) error {
	type plain Job
	return decode((*plain)(j), &j.unknown, strings.EqualFold, func(to any) error { return json.Unmarshal(text, to) })
}

// UnmarshalYAML decodes, and remembers keys that are no settings for [New] to report.
func (j *Job) UnmarshalYAML(unmarshal func(to any) error) error {
	type plain Job
	return decode((*plain)(j), &j.unknown, equal, unmarshal)
}

func equal(a, b string) bool { return a == b }

// decode decodes into a struct that has no methods for it, and notes the keys that its fields do not have.
func decode(to any, unknown *[]string, same func(a, b string) bool, unmarshal func(to any) error) error {
	var all map[string]any
	if err := unmarshal(&all); err != nil {
		return err
	}
	known := keysOf(reflect.TypeOf(to).Elem())
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.ContainsFunc(known, func(k string) bool { return same(k, key) }) {
			*unknown = append(*unknown, key)
		}
	}
	return unmarshal(to)
}

// keysOf are the keys of the fields of a struct.
func keysOf(t reflect.Type) (keys []string) {
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
