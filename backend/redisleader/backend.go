package redisleader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
)

const (
	defaultPrefix         = "leader:"
	maxPrefix             = 256
	defaultReplicaTimeout = 500 * time.Millisecond

	minTTL = 10 * time.Millisecond
	// Up to the year 2245 an instant that far ahead, in µs, is below 2^53, up to which scripts calculate exactly.
	maxTTL = 10 * 365 * 24 * time.Hour
)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Prefix is what all keys and channels begin with; "" means "leader:". It has at most 256 bytes of UTF-8, without
	// braces and control characters. Backends exclude each other only if their prefixes are the same.
	Prefix string

	// MinReplicas is how many replicas must confirm an acquisition, a renewal and a record (WAIT). If too few do, the
	// acquisition is taken back and fails, and the others fail with their outcome unknown; the error says how many did.
	// It costs no further round trip but the replicas' time. 0 asks for none. It is not available for a
	// [redis.ClusterClient], which does not send a WAIT to the node that has the key.
	MinReplicas int

	// ReplicaTimeout is how long the server waits for the replicas; 0 means 500 ms. A context that ends earlier
	// shortens it. It has to be less than the client's read timeout.
	ReplicaTimeout time.Duration
}

// Backend elects on one Redis or Valkey, or on one cluster. Its methods may be called concurrently.
type Backend struct {
	client  redis.UniversalClient
	options Options
	sharded bool   // the client is one of a cluster
	publish string // the command
	invalid error  // why the options are refused
	notices *notifier
}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.Waiter       = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
)

// New returns a backend on client, which the caller goes on owning: a [redis.Client] with or without sentinels, or a
// [redis.ClusterClient]. Nil options mean the defaults. New does no I/O; [Backend.Check] says what is wrong with the
// options, and every other call repeats it.
func New(client redis.UniversalClient, opts *Options) *Backend {
	b := &Backend{client: client, publish: "publish"}
	if opts != nil {
		b.options = *opts
	}
	if b.options.Prefix == "" {
		b.options.Prefix = defaultPrefix
	}
	if b.options.ReplicaTimeout == 0 {
		b.options.ReplicaTimeout = defaultReplicaTimeout
	}
	if _, b.sharded = client.(*redis.ClusterClient); b.sharded {
		b.publish = "spublish"
	}
	b.invalid = backend.WithKind(errors.Join(checkClient(client), b.options.check(client)), backend.Misconfigured)
	b.notices = newNotifier(b)
	return b
}

// Name returns "redis".
func (b *Backend) Name() string { return "redis" }

// Limits returns the bounds of a TTL. Calls may outlive their context, whose end go-redis does not notice when a connection
// is silent. With ContextTimeoutEnabled in the client's options they keep its deadline.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL, Blocking: true, Punctual: heedsDeadlines(b.client)}
}

// heedsDeadlines reports whether the client's calls end with the deadline of their context.
func heedsDeadlines(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c != nil && c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c != nil && c.Options().ContextTimeoutEnabled
	}
	return false
}

// Check reports everything that is wrong with the client and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close ends the pub/sub connections that waiters share, wakes those who still wait, with an error, and returns when
// the goroutines behind them have ended; on a silent connection that may take the client's read timeout. Leases and
// the client are not affected. Only [Backend.AwaitRelease] cannot be used afterwards.
func (b *Backend) Close() error {
	b.notices.close()
	return nil
}

// ready says why no request may be sent.
func (b *Backend) ready(ctx context.Context) error {
	if b.invalid != nil {
		return b.invalid
	}
	return ctx.Err()
}

func checkClient(client redis.UniversalClient) error {
	switch c := client.(type) {
	case nil:
		return errors.New("the client is nil")
	case *redis.Client:
		if c == nil {
			return errors.New("the client is nil")
		}
	case *redis.ClusterClient:
		if c == nil {
			return errors.New("the client is nil")
		}
	case *redis.Ring:
		return errors.New("a redis.Ring moves keys to another server while one is down, so that two could lead")
	}
	return nil
}

// check reports every bad option.
func (o *Options) check(client redis.UniversalClient) error {
	return errors.Join(o.checkPrefix(), o.checkReplicas(client))
}

func (o *Options) checkPrefix() error {
	switch p := o.Prefix; {
	case len(p) > maxPrefix:
		return fmt.Errorf("prefix of %d bytes is longer than %d", len(p), maxPrefix)
	case !utf8.ValidString(p):
		return fmt.Errorf("prefix %q is not UTF-8", p)
	case strings.ContainsAny(p, "{}"):
		return fmt.Errorf("prefix %q contains a brace, which is kept for the name", p)
	case strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("prefix %q contains a control character", p)
	}
	return nil
}

func (o *Options) checkReplicas(client redis.UniversalClient) error {
	var errs []error
	if o.MinReplicas < 0 {
		errs = append(errs, fmt.Errorf("MinReplicas %d is negative", o.MinReplicas))
	}
	if o.ReplicaTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("ReplicaTimeout %v is under 1ms", o.ReplicaTimeout))
	}
	if o.MinReplicas <= 0 {
		return errors.Join(errs...)
	}
	switch c := client.(type) {
	case *redis.ClusterClient:
		errs = append(errs, errors.New("MinReplicas is not available with a cluster client"))
	case *redis.Client:
		if c == nil {
			break
		}
		if limit := c.Options().ReadTimeout; limit > 0 && o.ReplicaTimeout >= limit {
			errs = append(errs, fmt.Errorf("ReplicaTimeout %v is not less than the client's read timeout, %v",
				o.ReplicaTimeout, limit))
		}
	}
	return errors.Join(errs...)
}
