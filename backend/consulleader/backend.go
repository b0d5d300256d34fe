package consulleader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

const (
	defaultPrefix  = "leader/"
	maxPrefix      = 256
	defaultWatches = 64

	// The bounds of a session's TTL, which the server checks.
	minTTL = 10 * time.Second
	maxTTL = 24 * time.Hour

	// maxDelay is the longest lock-delay that the server keeps.
	maxDelay = time.Minute
)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Prefix is what all keys begin with; "" means "leader/". It has at most 256 of the characters A to Z, a to z, 0 to
	// 9, "-", "_" and "/", and neither begins with a slash nor has two in a row. Backends exclude each other only if
	// their prefixes are the same.
	Prefix string

	// LockDelay is for how long nobody gets a key whose lease was ended by somebody else than its holder: by the end of
	// its session, or of the node that the session belongs to. It gives a holder that has not heard of it the time to
	// learn it. 0 means the lease time, at most 1 minute: no two trust a lease of up to that, whatever becomes of its
	// session. A negative one means none. It does not delay anybody after a release. The server keeps at most 1 minute.
	LockDelay time.Duration

	// MaxWatches is how many blocking queries the backend has at a time, each of which takes a connection: for keys
	// that are waited for, watched, or held for longer than a moment. An agent accepts 200 connections from one
	// address unless it is told otherwise (limits.http_max_conns_per_client). 0 means 64; a negative one means none.
	// Beyond it waiters poll, and a holder learns of a loss by its next renewal.
	MaxWatches int
}

// Backend elects on one Consul datacenter. Its methods may be called concurrently.
type Backend struct {
	client  *api.Client
	kv      *api.KV
	options Options
	invalid error // why the options are refused

	house    *housekeeping
	pool     *pool
	attempts *attempts
	feeds    *feeds
	records  *recordSessions
	delays   *delays
}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.Waiter       = (*Backend)(nil)
	_ backend.Watcher      = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
)

// New returns a backend on client, which the caller goes on owning. Nil options mean the defaults. New does no I/O;
// [Backend.Check] says what is wrong with the options, and every other call repeats it.
func New(client *api.Client, opts *Options) *Backend {
	b := &Backend{client: client}
	if opts != nil {
		b.options = *opts
	}
	if b.options.Prefix == "" {
		b.options.Prefix = defaultPrefix
	}
	if b.options.MaxWatches == 0 {
		b.options.MaxWatches = defaultWatches
	}
	if client != nil {
		b.kv = client.KV()
	}
	b.invalid = backend.WithKind(errors.Join(checkClient(client), b.options.check()), backend.Misconfigured)
	b.house = newHousekeeping()
	b.pool = newPool(b)
	b.attempts = newAttempts()
	b.feeds = newFeeds(b)
	b.records = newRecordSessions()
	b.delays = newDelays()
	return b
}

// Name returns "consul".
func (b *Backend) Name() string { return "consul" }

// Limits returns the bounds of a TTL, which a renewal can only repeat. A lease of 10 s that is not renewed ends up to
// 10.4 s late, a longer one by up to its own TTL and as much; the lock-delay comes on top. An attempt that loses against
// another at the same moment costs an entry in the log of the servers.
func (b *Backend) Limits() backend.Limits {
	late := minTTL + 2*reuse + b.lockDelay(minTTL)
	return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL, FixedTTL: true, Late: late, LookFirst: true}
}

// Check reports everything that is wrong with the client and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close destroys the sessions that hold nothing, wakes those who still wait, with an error, and returns when the
// goroutines of the backend have ended, after 10 s at most. Leases that are held are not affected, but are not watched
// any more, and keys that are kept stay so until their sessions end, which is up to twice as long. Afterwards the
// backend refuses to acquire.
func (b *Backend) Close() error {
	b.feeds.close()
	b.pool.close()
	b.house.close()
	return nil
}

// ready says why no request may be sent.
func (b *Backend) ready(ctx context.Context) error {
	if b.invalid != nil {
		return b.invalid
	}
	return ctx.Err()
}

// lockDelay is the lock-delay of the session of a lease.
func (b *Backend) lockDelay(ttl time.Duration) time.Duration {
	switch d := b.options.LockDelay; {
	case d < 0:
		return 0
	case d > 0:
		return d
	}
	return min(ttl, maxDelay)
}

func checkClient(client *api.Client) error {
	if client == nil {
		return errors.New("the client is nil")
	}
	return nil
}

// check reports every bad option.
func (o *Options) check() error {
	var errs []error
	switch p := o.Prefix; {
	case len(p) > maxPrefix:
		errs = append(errs, fmt.Errorf("prefix of %d bytes is longer than %d", len(p), maxPrefix))
	case strings.HasPrefix(p, "/"), strings.Contains(p, "//"):
		errs = append(errs, fmt.Errorf("prefix %q begins with a slash or has two in a row", p))
	case strings.ContainsFunc(p, func(r rune) bool { return r != '/' && !isPlain(r) }):
		errs = append(errs, fmt.Errorf("prefix %q contains another character than letters, digits, -, _ and /", p))
	}
	if o.LockDelay > maxDelay {
		errs = append(errs, fmt.Errorf("LockDelay %v is over the maximum of %v", o.LockDelay, maxDelay))
	}
	return errors.Join(errs...)
}

// checkTTL refuses what no session can have.
func checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL:
		return backend.WithKind(fmt.Errorf("a TTL of %v is under the minimum of %v", ttl, minTTL), backend.Misconfigured)
	case ttl > maxTTL:
		return backend.WithKind(fmt.Errorf("a TTL of %v is over the maximum of %v", ttl, maxTTL), backend.Misconfigured)
	}
	return nil
}
