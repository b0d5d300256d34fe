package etcdleader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

const (
	defaultPrefix = "leader/"
	maxPrefix     = 256

	minTTL = time.Second
	maxTTL = 10 * 365 * 24 * time.Hour

	// late is the sum of what an end may come late by: the slack and the rounding of a TTL, the server's own minimum of
	// 2 s, and its search for expired leases twice a second.
	late = 3 * time.Second

	// idMark is between a key of the engine and the id of a lease of etcd.
	idMark = "\t"

	// conflicts is how often a request is made that the store's own optimistic comparison refuses.
	conflicts = 3
)

var errClosed = backend.WithKind(errors.New("the backend is closed"), backend.Misconfigured)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Prefix is what all keys begin with; "" means "leader/". It has at most 256 bytes of UTF-8 without control
	// characters. Backends exclude each other only if their prefixes are the same.
	Prefix string
}

// Backend elects on one etcd. Its methods may be called concurrently.
type Backend struct {
	client   *clientv3.Client
	kv       clientv3.KV // for what changes keys
	prefix   string
	invalid  error // why the client or the options are refused
	leases   *pool
	attempts *attempts
	notices  *notifier
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
	_ backend.LossNotifier = (*term)(nil)
)

// New returns a backend on client, which the caller goes on owning. Nil options mean the defaults. New does no I/O;
// [Backend.Check] says what is wrong with the options, and every other call repeats it.
func New(client *clientv3.Client, opts *Options) *Backend {
	b := &Backend{client: client, prefix: defaultPrefix, attempts: newAttempts()}
	if opts != nil && opts.Prefix != "" {
		b.prefix = opts.Prefix
	}
	var err error
	if client == nil {
		err = errors.New("the client is nil")
	}
	b.invalid = backend.WithKind(errors.Join(err, checkPrefix(b.prefix)), backend.Misconfigured)
	if b.invalid == nil {
		b.kv = newKV(client)
		b.leases = newPool(newLessor(client))
		b.notices = newNotifier(client)
	}
	return b
}

// Name returns "etcd".
func (b *Backend) Name() string { return "etcd" }

// Limits returns the bounds of a TTL, which a renewal can only repeat. A lease ends up to 3 s late.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL, FixedTTL: true, Late: late}
}

// Check reports everything that is wrong with the client and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close revokes the idle leases of the pool, which takes a second at most, and ends the watches; those who still wait
// get an error. It returns when the goroutines behind them have ended. Leases that are held, and the client, are not
// affected. [Backend.AwaitRelease] and [Backend.Watch] cannot be used afterwards.
func (b *Backend) Close() error {
	if b.invalid == nil {
		b.notices.close()
		b.leases.close()
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

// place is what the key of a lease begins with, before the id of the lease of etcd below it. The mark that it ends with
// is in no key of the engine, so that no place begins with another one.
func (b *Backend) place(key string) string { return b.prefix + key + idMark }

// placeOf is the place of a key of a lease; "" for any other key.
func placeOf(key string) string { return key[:strings.Index(key, idMark)+len(idMark)] }

func checkPrefix(prefix string) error {
	switch {
	case len(prefix) > maxPrefix:
		return fmt.Errorf("prefix of %d bytes is longer than %d", len(prefix), maxPrefix)
	case !utf8.ValidString(prefix):
		return fmt.Errorf("prefix %q is not UTF-8", prefix)
	}
	for _, r := range prefix {
		if unicode.IsControl(r) {
			return fmt.Errorf("prefix %q contains a control character", prefix)
		}
	}
	return nil
}

// seconds converts a TTL, or a time to keep, to whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

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
