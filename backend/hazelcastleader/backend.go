package hazelcastleader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/goleader/leader/backend"
)

const (
	// DefaultMap is the name of the map of leases where none is given.
	DefaultMap = "leader"

	// DefaultMaxSkew is by how much the clocks of two members may differ where nothing else is said.
	DefaultMaxSkew = 5 * time.Second

	recordsSuffix = "_records"
	maxMap        = 128

	minTTL  = 100 * time.Millisecond
	maxTTL  = 10 * 365 * 24 * time.Hour
	maxSkew = time.Hour
)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Map is the name of the map of leases; "" means [DefaultMap]. Candidates and the like are in a second one, whose name
	// ends in _records. It has at most 128 ASCII letters, digits, dots, hyphens and underscores. Backends exclude each
	// other only if cluster and map are the same.
	Map string

	// MaxSkew is by how much the clocks of two members may differ, at most an hour; 0 means [DefaultMaxSkew]. A lease
	// whose end is by the clock of one member is over that much later by that of another.
	MaxSkew time.Duration
}

// Backend elects on a map of one Hazelcast cluster. Its methods may be called concurrently.
type Backend struct {
	client  *hazelcast.Client
	options Options
	invalid error // why the arguments are refused

	clock    *clock
	leases   table
	records  table
	attempts *attempts
	released memory
	feed     *feed
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

// New returns a backend on a client, which the caller goes on owning. Nil options mean the defaults. New does no I/O;
// [Backend.Check] says what is wrong with the arguments, and every other call repeats it. The client's configuration has
// to be one on which [Configure] was called, without a near cache for the map.
func New(client *hazelcast.Client, opts *Options) *Backend {
	b := &Backend{client: client, attempts: new(attempts)}
	if opts != nil {
		b.options = *opts
	}
	if b.options.Map == "" {
		b.options.Map = DefaultMap
	}
	if b.options.MaxSkew == 0 {
		b.options.MaxSkew = DefaultMaxSkew
	}
	b.leases = table{client: client, name: b.options.Map}
	b.records = table{client: client, name: b.options.Map + recordsSuffix}
	b.feed = newFeed(b.openStream)
	b.invalid = backend.WithKind(check(client, b.options), backend.Misconfigured)
	if b.invalid == nil {
		b.clock = clockOf(client)
	}
	return b
}

// Name returns "hazelcast".
func (b *Backend) Name() string { return "hazelcast" }

// Limits returns the bounds of a TTL. The client waits between its own tries without looking at the context, so that a
// call may go on for some hundred milliseconds.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL, Blocking: true}
}

// Check reports what is wrong with the client and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close ends the listener that waiters and watchers share, wakes those who still wait, with an error, and returns when
// the goroutines behind it and them have ended, and what was asked of the clock is answered. Leases and the client are
// not affected. Only [Backend.AwaitRelease] and [Backend.Watch] cannot be used afterwards.
func (b *Backend) Close() error {
	b.feed.close()
	if b.clock != nil {
		b.clock.wait()
	}
	return nil
}

// ready says why no request may be sent.
func (b *Backend) ready(ctx context.Context) error {
	if b.invalid != nil {
		return b.invalid
	}
	return ctx.Err()
}

func check(client *hazelcast.Client, o Options) error {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("the client is nil"))
	}
	if len(o.Map) > maxMap {
		errs = append(errs, fmt.Errorf("map name of %d bytes is longer than %d", len(o.Map), maxMap))
	}
	if strings.ContainsFunc(o.Map, isOdd) {
		errs = append(errs, fmt.Errorf("map name %q has characters other than ASCII letters, digits, dots, hyphens and "+
			"underscores", o.Map))
	}
	if o.MaxSkew < 0 || o.MaxSkew > maxSkew {
		errs = append(errs, fmt.Errorf("maximal skew %v is not between 0 and %v", o.MaxSkew, maxSkew))
	}
	return errors.Join(errs...)
}

// isOdd reports whether c needs quoting somewhere, or stands for others in a pattern of names.
func isOdd(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	return !letter && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
}

func checkTTL(ttl time.Duration) error {
	var err error
	switch {
	case ttl < minTTL:
		err = fmt.Errorf("ttl %v is under the minimum of %v", ttl, minTTL)
	case ttl > maxTTL:
		err = fmt.Errorf("ttl %v is over the maximum of %v", ttl, maxTTL)
	}
	return backend.WithKind(err, backend.Misconfigured)
}

func checkKeep(keep time.Duration) error {
	if keep <= maxTTL {
		return nil
	}
	return backend.WithKind(fmt.Errorf("%v to keep is over the maximum of %v", keep, maxTTL), backend.Misconfigured)
}
