package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// Keys of the attributes of log records.
const (
	keyName    = "leader.name"
	keyNode    = "leader.node"
	keyFence   = "leader.fence"
	keyBackend = "leader.backend"
	keyErr     = "err"
)

// maxAttempt bounds every single request to the store.
const maxAttempt = 2 * time.Second

// engine is what all electors share: the policy between the calls of users and the requests to a driver.
type engine struct {
	driver  backend.Driver
	limits  backend.Limits
	waiter  backend.Waiter       // nil if the store notifies nobody
	slots   backend.SlotAcquirer // nil if the store cannot try several keys at once
	records backend.Records      // nil if the store keeps none
	config  config
	clock   *clock

	renewals scheduler

	mu     sync.Mutex
	queues map[string]*queue // by key

	answered atomic.Bool // the store has answered a request for a lease
	swift    atomic.Bool // it answered the last request swiftly
	mute     atomic.Bool // it has said that it tells nobody of releases
}

// newEngine returns the engine of an elector; slots is 0 unless it is one of groups.
func newEngine(d backend.Driver, slots int, opts []Option) (*engine, error) {
	if d == nil {
		return nil, errors.New("leader: no driver: nil")
	}
	e := &engine{driver: d, clock: newClock(), queues: make(map[string]*queue)}
	if l, ok := backend.As[backend.Limited](d); ok {
		e.limits = l.Limits()
	}
	e.waiter, _ = backend.As[backend.Waiter](d)
	e.slots, _ = backend.As[backend.SlotAcquirer](d)
	e.records, _ = backend.As[backend.Records](d)
	var errs []error
	if c, ok := backend.As[backend.Checker](d); ok {
		errs = append(errs, c.Check())
	}
	var err error
	e.config, err = newConfig(e.limits, slots, opts)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, inv("new elector on "+d.Name(), err)
	}
	e.renewals.e = e
	return e, nil
}

// tells reports whether the store may tell of releases. A driver may find out only when it is asked.
func (e *engine) tells() bool { return e.waiter != nil && !e.mute.Load() }

// awaitRelease waits for the store to tell of a release. It may be called only if the store tells.
func (e *engine) awaitRelease(ctx context.Context, key, seen string) error {
	err := e.waiter.AwaitRelease(ctx, key, seen)
	if errors.Is(err, errors.ErrUnsupported) {
		e.mute.Store(true)
	}
	return err
}

// call is one call of a user: a name, its key and the options in force.
type call struct {
	op     operation
	name   string
	key    string
	config *config
	gate   *outlook // decides whether this node may try; nil unless strategic
}

// newCall checks the arguments of a call. action is nil where there is none.
func (e *engine) newCall(op operation, name string, action Action, opts []RunOption) (call, error) {
	c := call{op: op, name: name, config: &e.config}
	err := checkName("name", name)
	if action == nil && op != opAcquire {
		err = errors.Join(err, fmt.Errorf("%w: the action is nil", ErrInvalidOption))
	}
	if len(opts) > 0 {
		own, optErr := e.config.forCall(op, e.limits, opts)
		c.config, err = &own, errors.Join(err, optErr)
	}
	if c.config.runKey != "" && e.records == nil {
		err = errors.Join(err, fmt.Errorf("%w: WithRunKey: %s keeps no records", ErrUnsupported, e.driver.Name()))
	}
	if err != nil {
		return c, inv("call", err)
	}
	c.key = keyOf(e.config.namespace, name)
	return c, nil
}

// inv is the error of a call whose arguments were refused.
func inv(what string, err error) error { return fmt.Errorf("leader: %s: %w", what, err) }

// forever reports whether the call waits as long as its context lives.
func (c *call) forever() bool { return c.op == opCampaign }

// attempt is the bound of one request about a lease of time l.
func attempt(l time.Duration) time.Duration { return min(maxAttempt, l/2) }

// failure wraps an error of the driver, once.
func (e *engine) failure(op, name string, err error) *BackendError {
	late := errors.Is(err, ErrNoAnswer) || errors.Is(err, errTooLate) || errors.Is(err, context.DeadlineExceeded)
	if late && backend.KindOf(err) == backend.Unknown {
		err = backend.WithKind(err, backend.Unavailable)
	}
	return &BackendError{Op: op, Backend: e.driver.Name(), Name: name, Kind: backend.KindOf(err), Err: err}
}

func (e *engine) logger() *slog.Logger {
	if e.config.logger != nil {
		return e.config.logger
	}
	return slog.Default()
}

// warn logs what an operator should know of a lease.
func (e *engine) warn(ctx context.Context, text string, l LeaseInfo, err error) {
	e.logger().LogAttrs(ctx, slog.LevelWarn, text,
		slog.String(keyName, l.Name), slog.String(keyNode, l.Node), slog.Uint64(keyFence, l.Fence),
		slog.String(keyBackend, e.driver.Name()), slog.Any(keyErr, err))
}

// warnOf is warn where there is no lease.
func (e *engine) warnOf(ctx context.Context, text, name string, err error) {
	e.logger().LogAttrs(ctx, slog.LevelWarn, text,
		slog.String(keyName, name), slog.String(keyNode, e.config.node),
		slog.String(keyBackend, e.driver.Name()), slog.Any(keyErr, err))
}

// hasAnswered notes that the store has answered a request for a lease. The first time, it asks what the store's settings
// may cost, and logs it.
func (e *engine) hasAnswered(ctx context.Context) {
	if e.answered.Load() || !e.answered.CompareAndSwap(false, true) {
		return
	}
	a, ok := backend.As[backend.Advisor](e.driver)
	if !ok {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, maxAttempt)
		defer cancel()
		warnings, err := a.Advise(ctx)
		if err != nil {
			return // an answer that is refused or late warns of nothing
		}
		for _, w := range warnings {
			e.logger().LogAttrs(ctx, slog.LevelWarn, w, slog.String(keyBackend, e.driver.Name()))
		}
	}()
}
