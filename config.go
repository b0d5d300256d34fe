package leader

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/goleader/leader/backend"
)

const (
	defaultLease = 60 * time.Second

	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 256
)

// given marks the options that were given, where that matters beyond their value.
type given uint16

const (
	givenWait given = 1 << iota
	givenLease
	givenMaxHold
	givenFailure
	givenRequeue
	givenMargin
	givenRunKey
	givenRerun
	givenCandidateTTL
	givenFallback
	givenHandBack
	givenNode
	givenNamespace
)

// config is what the options of an elector, and then those of a call, make of the defaults.
type config struct {
	wait     time.Duration
	lease    time.Duration
	minLease time.Duration
	maxHold  time.Duration // 0 = no limit
	margin   time.Duration // 0 = by the lease time
	fixed    bool          // the lease is not renewed
	requeue  bool
	failure  FailureMode
	runKey   string // "" = none
	runKeep  time.Duration
	rerun    bool // a failed run frees its key
	given    given
	metadata map[string]string

	slots int // of a group; 0 for one leader per name

	candidateTTL   time.Duration
	fallbackAfter  time.Duration
	handBackBetter float64
	handBackHeld   time.Duration

	node      string
	namespace string
	logger    *slog.Logger
	hooks     Hooks
}

// newConfig is the configuration of an elector on a backend with the given limits.
func newConfig(limits backend.Limits, slots int, opts []Option) (config, error) {
	c := config{lease: defaultLease, slots: slots}
	for _, o := range opts {
		if o != nil {
			c = o.apply(c)
		}
	}
	if c.given&givenLease == 0 {
		c.lease = within(c.lease, limits)
	}
	if c.given&givenCandidateTTL == 0 {
		c.candidateTTL = defaultCandidateTTL
	}
	if c.given&givenFallback == 0 {
		c.fallbackAfter = c.candidateTTL
	}
	if c.given&givenNode == 0 {
		c.node = defaultNode()
	}
	var errs []error
	errs = append(errs, checkName("node id", c.node))
	if c.given&givenNamespace != 0 {
		errs = append(errs, checkName("namespace", c.namespace))
	}
	if c.given&givenRunKey != 0 {
		errs = append(errs, fmt.Errorf("%w: WithRunKey(%q): belongs to one call", ErrInvalidOption, c.runKey))
	}
	errs = append(errs, c.checkStrategic(), c.check(limits))
	return c, errors.Join(errs...)
}

// checkStrategic reports violations of the options of strategic electors.
func (c *config) checkStrategic() error {
	var errs []error
	refuse := func(option string, value any, rule string) {
		errs = append(errs, fmt.Errorf("%w: %s(%v): %s", ErrInvalidOption, option, value, rule))
	}
	if c.candidateTTL <= 0 {
		refuse("WithCandidateTTL", c.candidateTTL, "must be positive")
	}
	if c.given&givenFallback != 0 && c.fallbackAfter <= 0 {
		refuse("WithFallbackAfter", c.fallbackAfter, "must be positive")
	}
	if c.given&givenHandBack != 0 && (math.IsNaN(c.handBackBetter) || c.handBackBetter < 0) {
		refuse("WithHandBack", c.handBackBetter, "better must be a number that is not negative")
	}
	if c.given&givenHandBack != 0 && c.handBackHeld <= 0 {
		refuse("WithHandBack", c.handBackHeld, "held must be positive")
	}
	return errors.Join(errs...)
}

// within moves a default lease time inside the limits of the backend.
func within(d time.Duration, limits backend.Limits) time.Duration {
	if limits.MaxTTL > 0 {
		d = min(d, limits.MaxTTL)
	}
	return max(d, limits.MinTTL)
}

func defaultNode() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return fmt.Sprintf("%.200s:%d:%s", host, os.Getpid(), rand.Text()[:6])
}

// check reports all violations of the options at once.
func (c *config) check(limits backend.Limits) error {
	var errs []error
	refuse := func(option string, value any, rule string) {
		errs = append(errs, fmt.Errorf("%w: %s(%v): %s", ErrInvalidOption, option, value, rule))
	}
	if c.wait < 0 {
		refuse("WithWaitTime", c.wait, "must not be negative")
	}
	switch {
	case c.lease <= 0:
		refuse("WithLeaseTime", c.lease, "must be positive")
	case c.lease < limits.MinTTL:
		refuse("WithLeaseTime", c.lease, fmt.Sprintf("the backend's minimum is %v", limits.MinTTL))
	case limits.MaxTTL > 0 && c.lease > limits.MaxTTL:
		refuse("WithLeaseTime", c.lease, fmt.Sprintf("the backend's maximum is %v", limits.MaxTTL))
	}
	switch {
	case c.minLease < 0:
		refuse("WithMinLease", c.minLease, "must not be negative")
	case c.minLease > max(c.lease, 0):
		refuse("WithMinLease", c.minLease, fmt.Sprintf("must not be above the lease time of %v", c.lease))
	}
	if c.given&givenMaxHold != 0 && c.maxHold <= 0 {
		refuse("WithMaxHold", c.maxHold, "must be positive")
	}
	if c.given&givenMargin != 0 && (c.margin <= 0 || c.margin >= c.lease/2) {
		refuse("WithSafetyMargin", c.margin, fmt.Sprintf("must be positive and under half of the lease time of %v", c.lease))
	}
	switch {
	case c.failure > FailOpenRun:
		refuse("WithFailureMode", int(c.failure), "must be Rethrow, Skip or FailOpenRun")
	case c.failure == FailOpenRun && c.slots > 0:
		refuse("WithFailureMode", c.failure, "would run a group's action on every node")
	case c.failure == FailOpenRun && c.given&givenRunKey != 0:
		refuse("WithFailureMode", c.failure, "a run without a lease cannot use a run key")
	}
	if c.given&givenRunKey != 0 {
		if err := checkName("run key", c.runKey); err != nil {
			errs = append(errs, fmt.Errorf("%w: WithRunKey: %w", ErrInvalidOption, err))
		}
		if c.runKeep <= 0 {
			refuse("WithRunKey", c.runKeep, "the time to keep it must be positive")
		}
	}
	return errors.Join(append(errs, checkMetadata(c.metadata))...)
}

func checkMetadata(m map[string]string) error {
	var errs []error
	refuse := func(value, rule string) {
		errs = append(errs, fmt.Errorf("%w: WithMetadata(%s): %s", ErrInvalidOption, value, rule))
	}
	if len(m) > maxMetadata {
		refuse(strconv.Itoa(len(m))+" keys", fmt.Sprintf("at most %d are allowed", maxMetadata))
	}
	for k, v := range m {
		switch {
		case k == "" || len(k) > maxMetadataKey || !utf8.ValidString(k):
			refuse(fmt.Sprintf("key %.70q", k), fmt.Sprintf("must be 1 to %d bytes of UTF-8", maxMetadataKey))
		case len(v) > maxMetadataValue || !utf8.ValidString(v):
			refuse(fmt.Sprintf("value of %q, %d bytes", k, len(v)),
				fmt.Sprintf("must be at most %d bytes of UTF-8", maxMetadataValue))
		}
	}
	return errors.Join(errs...)
}

// operation is a kind of call, as far as options have a meaning for it.
type operation uint8

const (
	opRun operation = iota
	opAcquire
	opCampaign
)

// forCall is the configuration of one call with options of its own.
func (c *config) forCall(op operation, limits backend.Limits, opts []RunOption) (config, error) {
	own := *c
	own.given &= givenMargin | givenMaxHold
	for _, o := range opts {
		if o != nil {
			own = o.applyRun(own)
		}
	}
	meaningless := own.given.without(op)
	own.given |= c.given
	return own, errors.Join(meaningless, own.check(limits))
}

// without reports the given options that have no meaning for a call.
func (g given) without(op operation) error {
	var errs []error
	refuse := func(bit given, option, rule string) {
		if g&bit != 0 {
			errs = append(errs, fmt.Errorf("%w: %s: %s", ErrInvalidOption, option, rule))
		}
	}
	if op == opCampaign {
		refuse(givenWait, "WithWaitTime", "has no meaning for Campaign, which waits as long as its context lives")
	}
	if op != opRun {
		refuse(givenFailure, "WithFailureMode", "has a meaning for RunIfLeader alone")
	}
	if op != opRun {
		refuse(givenRunKey, "WithRunKey", "has a meaning for RunIfLeader alone")
	}
	if op != opRun || g&givenRunKey == 0 {
		refuse(givenRerun, "WithRetryFailedRun", "has a meaning with a run key alone")
	}
	if op != opCampaign {
		refuse(givenRequeue, "WithRequeue", "has a meaning for Campaign alone")
	}
	return errors.Join(errs...)
}

// marginOf is how long before its end a lease that was granted for l is no longer trusted. A short extension has the
// margin of the lease: what the store's clock may jump does not depend on what was asked for.
func (c *config) marginOf(l time.Duration) time.Duration {
	if c.margin > 0 {
		return c.margin
	}
	l = max(l, c.lease)
	m := min(max(l/10, 50*time.Millisecond), 2*time.Second)
	return min(l/2, max(m, l/1000))
}
