package leader

import (
	"log/slog"
	"maps"
	"time"
)

// Option configures an elector.
type Option interface{ apply(c config) config }

// RunOption configures one call, or, given to a constructor, is the default of all calls. There it is ignored by calls
// for which it has no meaning; given to such a call it is [ErrInvalidOption].
type RunOption interface {
	Option
	applyRun(c config) config
}

// FailureMode says what RunIfLeader makes of a store that fails, that is, of errors of kind Unknown or Unavailable.
// Refused access and a misconfigured store are always returned.
type FailureMode uint8

const (
	// Rethrow returns the store's failure as an error.
	Rethrow FailureMode = iota
	// Skip turns it into a result, Skipped with reason BackendFailed.
	Skip
	// FailOpenRun lets the action run without a lease, that is, on every node that cannot reach the store.
	FailOpenRun
)

// String returns the mode's name.
func (m FailureMode) String() string {
	switch m {
	case Rethrow:
		return "Rethrow"
	case Skip:
		return "Skip"
	case FailOpenRun:
		return "FailOpenRun"
	}
	return "FailureMode(?)"
}

type (
	option    struct{ f func(c config) config }
	runOption struct{ f func(c config) config }
)

func (o option) apply(c config) config       { return o.f(c) }
func (o runOption) apply(c config) config    { return o.f(c) }
func (o runOption) applyRun(c config) config { return o.f(c) }

// WithWaitTime lets RunIfLeader and Acquire wait up to d for a lease that another holds. The default is 0: try once.
// It must not be negative, and has no meaning for Campaign, which waits as long as its context lives.
func WithWaitTime(d time.Duration) RunOption {
	return runOption{func(c config) config {
		c.wait, c.given = d, c.given|givenWait
		return c
	}}
}

// WithLeaseTime sets how long a lease lasts unless renewed, and so how long a dead leader is waited for. The default is
// 60 s, moved inside the backend's limits; an explicit value outside of them is an error.
func WithLeaseTime(d time.Duration) RunOption {
	return runOption{func(c config) config {
		c.lease, c.given = d, c.given|givenLease
		return c
	}}
}

// WithMinLease keeps the name taken for d from acquisition on, even if the action is quicker, panics or its process is
// killed. It must not be longer than the lease time. The default is 0.
func WithMinLease(d time.Duration) RunOption {
	return runOption{func(c config) config {
		c.minLease = d
		return c
	}}
}

// WithAutoExtend renews the lease until the action returns. It is the default.
func WithAutoExtend() RunOption {
	return runOption{func(c config) config {
		c.fixed = false
		return c
	}}
}

// WithoutAutoExtend lets the lease end after its lease time; the action's context ends before it does.
func WithoutAutoExtend() RunOption {
	return runOption{func(c config) config {
		c.fixed = true
		return c
	}}
}

// WithMaxHold ends a lease at age d: its context is cancelled with [ErrMaxHold], the lease is renewed until the action
// has returned or the trust deadline has come, and is released then. The default is no such limit; d must be positive.
func WithMaxHold(d time.Duration) RunOption {
	return runOption{func(c config) config {
		c.maxHold, c.given = d, c.given|givenMaxHold
		return c
	}}
}

// WithFailureMode says what RunIfLeader makes of a store that fails. The default is [Rethrow].
func WithFailureMode(m FailureMode) RunOption {
	return runOption{func(c config) config {
		c.failure, c.given = m, c.given|givenFailure
		return c
	}}
}

// WithMetadata publishes facts about the leader, shown by State: at most 16 keys of 64 bytes, with values of 256 bytes.
// The map is copied.
func WithMetadata(m map[string]string) RunOption {
	m = maps.Clone(m)
	return runOption{func(c config) config {
		c.metadata = m
		return c
	}}
}

// WithRequeue lets Campaign queue again after its action returned nil. It has no meaning for other calls.
func WithRequeue() RunOption {
	return runOption{func(c config) config {
		c.requeue, c.given = true, c.given|givenRequeue
		return c
	}}
}

// WithRunKey makes a run happen once: key, a fire time or a version, say, is marked in the store after the lease was
// acquired and before the action starts, and later runs with it are skipped, with reason AlreadyRan, for keep. A run
// whose process dies stays marked: a key is used at most once. The key follows the rules of names; keep must be positive.
// It belongs to one call and is [ErrUnsupported] where the backend keeps no records.
func WithRunKey(key string, keep time.Duration) RunOption {
	return runOption{func(c config) config {
		c.runKey, c.runKeep, c.given = key, keep, c.given|givenRunKey
		return c
	}}
}

// WithRetryFailedRun lets a run with a run key free the key when its action fails, or does not return. It has a meaning
// with a run key alone.
func WithRetryFailedRun() RunOption {
	return runOption{func(c config) config {
		c.rerun, c.given = true, c.given|givenRerun
		return c
	}}
}

// WithCandidateTTL sets how long a candidate that died stays enrolled; it sends a heartbeat every third of that. The
// default is 15 s; it must be positive. It has a meaning for strategic electors alone.
func WithCandidateTTL(d time.Duration) Option {
	return option{func(c config) config {
		c.candidateTTL, c.given = d, c.given|givenCandidateTTL
		return c
	}}
}

// WithFallbackAfter sets how long a preferred candidate may leave a free lease untaken before the next one may try. The
// default is one candidate TTL; it must be positive. It has a meaning for strategic electors alone.
func WithFallbackAfter(d time.Duration) Option {
	return option{func(c config) config {
		c.fallbackAfter, c.given = d, c.given|givenFallback
		return c
	}}
}

// WithHandBack makes a campaigning leader make way, with cause [ErrHandBack], when another candidate's score has been
// better than its own by more than better, without a break, for held; it then sits out for one candidate TTL. The default
// is not to. better must not be negative or NaN, held must be positive, and the strategy must be [Scored].
func WithHandBack(better float64, held time.Duration) Option {
	return option{func(c config) config {
		c.handBackBetter, c.handBackHeld, c.given = better, held, c.given|givenHandBack
		return c
	}}
}

// WithNodeID names this node for people. The default is made of the host name, the process id and a random suffix. It
// is never the proof of ownership: two electors with one id are still two owners.
func WithNodeID(id string) Option {
	return option{func(c config) config {
		c.node = id
		c.given |= givenNode
		return c
	}}
}

// WithNamespace keeps the names of this elector apart from the same names in other namespaces of the store.
func WithNamespace(ns string) Option {
	return option{func(c config) config {
		c.namespace = ns
		c.given |= givenNamespace
		return c
	}}
}

// WithLogger sets where warnings go: a lost or abandoned lease, a renewal that has been failing for over a third of the
// lease, a failed release, what the backend advises. The default is [slog.Default]; a [slog.DiscardHandler] silences.
func WithLogger(l *slog.Logger) Option {
	return option{func(c config) config {
		c.logger = l
		return c
	}}
}

// WithHooks adds hooks; given more than once, all are called in order.
func WithHooks(h Hooks) Option {
	return option{func(c config) config {
		c.hooks = JoinHooks(c.hooks, h)
		return c
	}}
}

// WithSafetyMargin sets how long before a lease may end at the store its holder stops trusting it. It covers what the
// store's clock may jump ahead and what the rates of clocks differ. It must be positive and under half of the lease
// time. The default for a lease of time L is min(L/2, max(clamp(L/10, 50ms, 2s), L/1000)).
func WithSafetyMargin(d time.Duration) Option {
	return option{func(c config) config {
		c.margin, c.given = d, c.given|givenMargin
		return c
	}}
}
