package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics"
)

var (
	errDown   = backend.WithKind(errors.New("connection refused"), backend.Unavailable)
	errDenied = backend.WithKind(errors.New("wrong password"), backend.Denied)
	errAction = errors.New("the action failed")
)

// log is a sink that writes down what it is told.
type log struct {
	mu    sync.Mutex
	lines []string
	gaps  []time.Duration
}

var _ metrics.Sink = (*log)(nil)

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l *log) RunStarted(_ context.Context, name string) { l.add("%s started", name) }

func (l *log) RunFinished(_ context.Context, name string, r metrics.Run) {
	l.add("%s finished %s %s", name, r.Outcome, r.Reason)
}

func (l *log) AcquireFailed(_ context.Context, name, kind string) {
	l.add("%s attempt failed %s", name, kind)
}

func (l *log) LeaseAcquired(_ context.Context, name string)            { l.add("%s acquired", name) }
func (l *log) LeaseEnded(_ context.Context, name string)               { l.add("%s ended", name) }
func (l *log) LeaseLost(_ context.Context, name, cause string)         { l.add("%s lost %s", name, cause) }
func (l *log) Renewed(_ context.Context, name string, _ time.Duration) { l.add("%s renewed", name) }
func (l *log) RenewFailed(_ context.Context, name, kind string) {
	l.add("%s renewal failed %s", name, kind)
}
func (l *log) Released(_ context.Context, name string) { l.add("%s released", name) }
func (l *log) ReleaseFailed(_ context.Context, name, kind string) {
	l.add("%s release failed %s", name, kind)
}

func (l *log) CallAbandoned(_ context.Context, name, op string) {
	l.add("%s abandoned %s", name, op)
}

func (l *log) HandedOver(_ context.Context, name string, gap time.Duration) {
	l.add("%s handed over", name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps = append(l.gaps, gap)
}

// text is what was written down, without repetitions in a row.
func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Compact(slices.Clone(l.lines)), ", ")
}

// store is a local store that fails as a test says.
type store struct {
	backend.Driver

	acquire, renew, release error
}

func newStore() *store { return &store{Driver: local.New()} }

func (s *store) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if s.acquire != nil {
		return nil, s.acquire
	}
	l, err := s.Driver.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return failing{l, s}, nil
}

type failing struct {
	backend.Lease

	s *store
}

func (f failing) Renew(ctx context.Context, ttl time.Duration) error {
	if f.s.renew != nil {
		return f.s.renew
	}
	return f.Lease.Renew(ctx, ttl)
}

func (f failing) Release(ctx context.Context, keep time.Duration) error {
	if f.s.release != nil {
		return f.s.release
	}
	return f.Lease.Release(ctx, keep)
}

func elector(t testing.TB, d backend.Driver, hooks leader.Hooks, opts ...leader.Option) *leader.Single {
	t.Helper()
	quiet := []leader.Option{leader.WithHooks(hooks), leader.WithLogger(noLog)}
	e, err := leader.New(d, append(quiet, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func nothing(context.Context) error { return nil }
