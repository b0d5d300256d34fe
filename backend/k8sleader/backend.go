package k8sleader

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/goleader/leader/backend"
)

const (
	defaultNamespace = "default"

	// minTTL is the shortest that leaseDurationSeconds can show.
	minTTL = time.Second
	// maxTTL is in seconds far below 2^31, where leaseDurationSeconds ends.
	maxTTL = 10 * 365 * 24 * time.Hour

	// conflictRetries is how often a call goes on at once when the object changed under it.
	conflictRetries = 3
)

// A namespace is a DNS-1123 label.
var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Namespace is where the Lease objects are; "" means "default". It has to exist. Backends exclude each other only
	// if their namespaces are the same.
	Namespace string
}

// Backend elects on the Lease objects of one namespace. Its methods may be called concurrently.
type Backend struct {
	namespace string
	api       *api
	invalid   error // why the client or the options are refused
	memory    *memory
	watches   *watches
	attempts  attempts
	clock     clock
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

// New returns a backend on client, which is the CoordinationV1 of a clientset and stays the caller's. Nil options mean
// the defaults. New does no I/O; [Backend.Check] says what is wrong with the client and the options, and every other
// call repeats it.
func New(client coordination.CoordinationV1Interface, opts *Options) *Backend {
	b := &Backend{namespace: defaultNamespace, memory: newMemory()}
	if opts != nil && opts.Namespace != "" {
		b.namespace = opts.Namespace
	}
	var wrong error
	if !namespacePattern.MatchString(b.namespace) {
		wrong = fmt.Errorf("%q is no name of a namespace", b.namespace)
	}
	connected, err := newAPI(client, b.namespace)
	b.api = connected
	b.invalid = backend.WithKind(errors.Join(err, wrong), backend.Misconfigured)
	b.watches = newWatches(b)
	return b
}

// Name returns "kubernetes".
func (b *Backend) Name() string { return "kubernetes" }

// Limits returns the bounds of a TTL.
func (b *Backend) Limits() backend.Limits { return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL} }

// Check reports everything that is wrong with the client and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close ends all watches, wakes those who still wait, with an error, and returns when the goroutines behind them have
// ended. Leases and the client are not affected; a lease is then no longer told of its loss. [Backend.AwaitRelease] and
// [Backend.Watch] cannot be used afterwards.
func (b *Backend) Close() error {
	b.watches.close()
	return nil
}

// ready says why no request may be sent.
func (b *Backend) ready(ctx context.Context) error {
	if b.invalid != nil {
		return b.invalid
	}
	return ctx.Err()
}

// checkTTL refuses what leaseDurationSeconds cannot show.
func checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL:
		return backend.WithKind(fmt.Errorf("a TTL of %v is under the limit of %v", ttl, minTTL), backend.Misconfigured)
	case ttl > maxTTL:
		return backend.WithKind(fmt.Errorf("a TTL of %v is over the limit of %v", ttl, maxTTL), backend.Misconfigured)
	}
	return nil
}

// checkKeep refuses what leaseDurationSeconds cannot show.
func checkKeep(keep time.Duration) error {
	if keep > maxTTL {
		return backend.WithKind(fmt.Errorf("a keep of %v is over the limit of %v", keep, maxTTL), backend.Misconfigured)
	}
	return nil
}
