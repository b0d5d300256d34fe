package zkleader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

const (
	defaultRoot    = "/leader"
	defaultTimeout = 10 * time.Second

	minTTL     = 100 * time.Millisecond
	maxTimeout = time.Hour
)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Root is the node below which everything lies; "" means "/leader". It and those above it are created when missing.
	// Backends exclude each other only if their roots are the same, by its path from the top of the tree.
	Root string

	// SessionTimeout is how long a silent session lives, and the longest lease time; 0 means 10 s. It should be the
	// lease time that is used: a process that died is replaced when both have passed. A server moves it within limits
	// of its own, by default 4 s to 40 s.
	SessionTimeout time.Duration

	// Auth are the credentials of the session.
	Auth []Auth

	// ACL are the permissions of the nodes that are created. If it is empty everybody may do everything, or, with Auth,
	// whoever has these credentials.
	ACL []zk.ACL

	// Dial makes a connection, for TLS or a proxy; nil means a plain one. ctx ends when it is no longer wanted.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Auth is one credential, as {"digest", "user:password"}.
type Auth struct{ Scheme, Credential string }

// String hides the credential.
func (a Auth) String() string { return a.Scheme + ":***" }

// Backend elects on one ZooKeeper. Its methods may be called concurrently.
type Backend struct {
	servers []string
	options Options
	acl     []zk.ACL
	invalid error // why the options are refused
	sights  sights
	clock   clock

	attempts attempts

	mu      sync.Mutex
	current *session // the last one, which may have ended
	closed  bool
	tasks   sync.WaitGroup // whatever outlives a call
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

// New returns a backend on the servers of one ZooKeeper, given as host:port or host, for port 2181. Nil options mean
// the defaults. New does no I/O: the first call opens a session. [Backend.Check] says what is wrong with the options,
// and every other call repeats it. [Backend.Close] ends the session.
func New(servers []string, opts *Options) *Backend {
	b := &Backend{servers: slices.Clone(servers)}
	if opts != nil {
		b.options = *opts
	}
	if b.options.Root == "" {
		b.options.Root = defaultRoot
	}
	if b.options.SessionTimeout == 0 {
		b.options.SessionTimeout = defaultTimeout
	}
	if b.options.Dial == nil {
		b.options.Dial = new(net.Dialer).DialContext
	}
	b.acl = b.options.permissions()
	b.sights.keep = 2 * b.options.SessionTimeout
	b.invalid = backend.WithKind(errors.Join(checkServers(servers), b.options.check()), backend.Misconfigured)
	return b
}

// Name returns "zookeeper".
func (b *Backend) Name() string { return "zookeeper" }

// Limits returns the bounds of a TTL. A losing attempt writes nothing; still it is better to look first, because the
// answer to a look serves the attempt that follows.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{
		MinTTL:    minTTL,
		MaxTTL:    b.options.SessionTimeout,
		FixedTTL:  true,
		Late:      b.options.SessionTimeout,
		Blocking:  true,
		LookFirst: true,
	}
}

// Check reports everything that is wrong with the servers and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close ends the session, wakes those who wait, and returns when the goroutines behind it have ended, after a second
// or two if the server is silent. Leases that were not released are free when their time has passed. Every later call
// fails.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	last := b.current
	b.mu.Unlock()
	if last != nil {
		last.end(errClosed)
	}
	b.tasks.Wait()
	return nil
}

// spawn runs f on a goroutine that Close waits for. It reports false after Close.
func (b *Backend) spawn(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.tasks.Go(f)
	return true
}

// ready says why no request may be sent.
func (b *Backend) ready(ctx context.Context) error {
	if b.invalid != nil {
		return b.invalid
	}
	return ctx.Err()
}

func (b *Backend) checkTTL(ttl time.Duration) error {
	var limit string
	switch {
	case ttl < minTTL:
		limit = "minimum of " + minTTL.String()
	case ttl > b.options.SessionTimeout:
		limit = "session timeout, the maximum, of " + b.options.SessionTimeout.String()
	default:
		return nil
	}
	return backend.WithKind(fmt.Errorf("TTL %v is outside the %s", ttl, limit), backend.Misconfigured)
}

func checkServers(servers []string) error {
	if len(servers) == 0 {
		return errors.New("no server is given")
	}
	for _, s := range servers {
		if s == "" || strings.ContainsAny(s, "/, ") {
			return fmt.Errorf("server %q is not host or host:port", s)
		}
	}
	return nil
}

func (o *Options) permissions() []zk.ACL {
	switch {
	case len(o.ACL) > 0:
		return slices.Clone(o.ACL)
	case len(o.Auth) > 0:
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll)
}

// check reports every bad option.
func (o *Options) check() error {
	var errs []error
	if o.Root == "/" || checkRoot(o.Root) != nil {
		errs = append(errs, fmt.Errorf("root %q is not the path of a node", o.Root))
	}
	if o.SessionTimeout < minTTL || o.SessionTimeout > maxTimeout {
		errs = append(errs, fmt.Errorf("SessionTimeout %v is not within %v and %v", o.SessionTimeout, minTTL, maxTimeout))
	}
	for _, a := range o.Auth {
		if a.Scheme == "" {
			errs = append(errs, errors.New("an Auth has no scheme"))
		}
	}
	return errors.Join(errs...)
}

func checkRoot(root string) error {
	for i, name := range strings.Split(root, "/") {
		if (i == 0) != (name == "") || i > 0 && (name == "." || name == ".." || strings.ContainsFunc(name, unwritable)) {
			return zk.ErrInvalidPath
		}
	}
	return nil
}
