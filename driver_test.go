package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// The times of most tests: a lease, the default margin for it, and the trust deadline that follows from both.
const (
	lease    = time.Minute
	margin   = 2 * time.Second
	deadline = lease - margin
)

// attemptBound is the longest that one request may take for such a lease.
const attemptBound = 2 * time.Second

var (
	errDown    = backend.WithKind(errors.New("connection refused"), backend.Unavailable)
	errDenied  = backend.WithKind(errors.New("wrong password"), backend.Denied)
	errForeign = backend.WithKind(errors.New("a key of another type"), backend.Misconfigured)
	errStrange = errors.New("strange answer")
	errAction  = errors.New("the action failed")
)

// verb is a kind of request.
type verb string

const (
	acquires verb = "acquire"
	renews   verb = "renew"
	releases verb = "release"
	abandons verb = "abandon"
	inspects verb = "inspect"
)

// request is one request as the driver received it.
type request struct {
	verb  verb
	key   string
	token string
	n     int           // of this verb and key, from 1
	at    time.Duration // since the driver was made
	d     time.Duration // the TTL, or what a release keeps
}

// answer says how a request goes; apply performs it at the store, whose answer it returns.
type answer func(ctx context.Context, apply func() error) error

// driver is a scripted driver over a store in memory. Several drivers of one store are several processes.
type driver struct {
	store  *local.Backend
	limits backend.Limits
	began  time.Time
	ahead  func(ttl time.Duration) time.Duration // by how much the store's clock jumps during a lease; nil: it does not

	mu       sync.Mutex
	script   func(r request) answer // nil, or returning nil: the request is applied at once
	requests []request
	counts   map[string]int
}

func newDriver() *driver { return driverOf(local.New()) }

func driverOf(store *local.Backend) *driver {
	return &driver{store: store, began: time.Now(), counts: make(map[string]int)}
}

// on replaces the script.
func (d *driver) on(script func(r request) answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script = script
}

// onVerb scripts the requests of one kind; all others are applied at once.
func (d *driver) onVerb(v verb, a answer) {
	d.on(func(r request) answer {
		if r.verb == v {
			return a
		}
		return nil
	})
}

// first scripts the first n requests of one kind and key.
func (d *driver) first(n int, v verb, a answer) {
	d.on(func(r request) answer {
		if r.verb == v && r.n <= n {
			return a
		}
		return nil
	})
}

func (d *driver) do(ctx context.Context, r request, apply func(ctx context.Context) error) error {
	d.mu.Lock()
	r.at = time.Since(d.began)
	id := string(r.verb) + " " + r.key
	d.counts[id]++
	r.n = d.counts[id]
	d.requests = append(d.requests, r)
	var a answer
	if d.script != nil {
		a = d.script(r)
	}
	d.mu.Unlock()
	if a == nil {
		return apply(ctx)
	}
	return a(ctx, func() error { return apply(context.WithoutCancel(ctx)) })
}

// log returns the requests of the given kinds, of all kinds if none is given.
func (d *driver) log(verbs ...verb) []request {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(verbs) == 0 {
		return slices.Clone(d.requests)
	}
	return slices.DeleteFunc(slices.Clone(d.requests), func(r request) bool { return !slices.Contains(verbs, r.verb) })
}

func (d *driver) count(verbs ...verb) int { return len(d.log(verbs...)) }

// atStore is how long a lease lasts at the store.
func (d *driver) atStore(ttl time.Duration) time.Duration {
	if d.ahead == nil {
		return ttl
	}
	return ttl - d.ahead(ttl)
}

func (d *driver) Name() string           { return "scripted" }
func (d *driver) Limits() backend.Limits { return d.limits }

func (d *driver) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	var mu sync.Mutex // an answer may be given up while the request is being applied
	var l backend.Lease
	err := d.do(ctx, request{verb: acquires, key: req.Key, token: req.Token, d: req.TTL}, func(ctx context.Context) error {
		req.TTL = d.atStore(req.TTL)
		got, err := d.store.TryAcquire(ctx, req)
		mu.Lock()
		defer mu.Unlock()
		l = got
		return err
	})
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return &scriptedLease{l, d, req}, nil
}

func (d *driver) Abandon(ctx context.Context, req backend.Request) error {
	return d.do(ctx, request{verb: abandons, key: req.Key, token: req.Token}, func(ctx context.Context) error {
		return d.store.Abandon(ctx, req)
	})
}

func (d *driver) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	var mu sync.Mutex
	var h backend.Holder
	err := d.do(ctx, request{verb: inspects, key: key}, func(ctx context.Context) error {
		got, err := d.store.Inspect(ctx, key)
		mu.Lock()
		defer mu.Unlock()
		h = got
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	return h, err
}

type scriptedLease struct {
	backend.Lease
	d   *driver
	req backend.Request
}

func (l *scriptedLease) Renew(ctx context.Context, ttl time.Duration) error {
	r := request{verb: renews, key: l.req.Key, token: l.req.Token, d: ttl}
	return l.d.do(ctx, r, func(ctx context.Context) error { return l.Lease.Renew(ctx, l.d.atStore(ttl)) })
}

func (l *scriptedLease) Release(ctx context.Context, keep time.Duration) error {
	r := request{verb: releases, key: l.req.Key, token: l.req.Token, d: keep}
	return l.d.do(ctx, r, func(ctx context.Context) error { return l.Lease.Release(ctx, keep) })
}

// fails answers with err and applies nothing.
func fails(err error) answer {
	return func(context.Context, func() error) error { return err }
}

// losesAnswer applies the request and answers with err.
func losesAnswer(err error) answer {
	return func(_ context.Context, apply func() error) error {
		_ = apply()
		return err
	}
}

// hangs applies nothing and answers when ctx ends.
func hangs(ctx context.Context, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// arrivesAfter applies the request d later and answers at once then, whatever becomes of ctx.
func arrivesAfter(d time.Duration) answer {
	return func(_ context.Context, apply func() error) error {
		time.Sleep(d)
		return apply()
	}
}

// answersAfter applies the request at once and answers d later, whatever becomes of ctx.
func answersAfter(d time.Duration) answer {
	return func(_ context.Context, apply func() error) error {
		err := apply()
		time.Sleep(d)
		return err
	}
}

// stuck applies nothing and ignores ctx; it answers when freed is closed.
func stuck(freed <-chan struct{}) answer {
	return func(context.Context, func() error) error {
		<-freed
		return errDown
	}
}

// electorOn returns an elector that logs nothing.
func electorOn(t testing.TB, d backend.Driver, opts ...leader.Option) *leader.Single {
	t.Helper()
	e, err := leader.New(d, append([]leader.Option{leader.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// occupy takes a key, as another process would.
func occupy(t testing.TB, store *local.Backend, key string, ttl time.Duration) backend.Lease {
	t.Helper()
	req := backend.Request{Key: key, Token: "somebody else's " + key, Owner: "somebody else", TTL: ttl}
	l, err := store.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// holderOf asks a store who has a key.
func holderOf(t testing.TB, store *local.Backend, key string) backend.Holder {
	t.Helper()
	h, err := store.Inspect(context.WithoutCancel(t.Context()), key)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wantFree asserts that nobody has a key.
func wantFree(t testing.TB, store *local.Backend, key string) {
	t.Helper()
	if h := holderOf(t, store, key); !h.Free() {
		t.Errorf("key %q is held by %+v, want nobody", key, h)
	}
}

// wantIs asserts that err wraps all targets.
func wantIs(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v does not wrap %q", err, target)
		}
	}
}

// wantAt asserts that what is so at this instant happens within tolerance of an instant.
func wantAt(t testing.TB, what string, got, want, tolerance time.Duration) {
	t.Helper()
	if got < want-tolerance || got > want+tolerance {
		t.Errorf("%s after %v, want %v ± %v", what, got, want, tolerance)
	}
}

// nothing is an action that succeeds.
func nothing(context.Context) error { return nil }

// untilDone is an action that works until its context ends.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// works is an action that takes d, and ignores its context.
func works(d time.Duration) leader.Action {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}

// journal collects lines from several goroutines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) String() string { return strings.Join(j.all(), ", ") }

// recordingHooks writes the name of each hook into the journal, of runs and renewals only if they fail.
func recordingHooks(j *journal) leader.Hooks {
	note := func(line string) func(context.Context, leader.LeaseInfo) {
		return func(context.Context, leader.LeaseInfo) { j.add(line) }
	}
	noteErr := func(line string) func(context.Context, leader.LeaseInfo, error) {
		return func(context.Context, leader.LeaseInfo, error) { j.add(line) }
	}
	return leader.Hooks{
		AcquireFailed: func(context.Context, string, error) { j.add("acquire failed") },
		Acquired:      note("acquired"),
		RenewFailed:   noteErr("renew failed"),
		Lost:          noteErr("lost"),
		Released:      note("released"),
		ReleaseFailed: noteErr("release failed"),
	}
}

// warnings is a slog handler that keeps the messages.
type warnings struct {
	slog.Handler
	journal
}

func newWarnings() *warnings { return &warnings{Handler: slog.DiscardHandler} }

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.add(r.Message)
	return nil
}

// loggingElector returns an elector whose warnings are kept.
func loggingElector(t testing.TB, d backend.Driver, w *warnings, opts ...leader.Option) *leader.Single {
	t.Helper()
	return electorOn(t, d, append(opts, leader.WithLogger(slog.New(w)))...)
}

// wantNames asserts that the text of err contains all parts.
func wantNames(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that names %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}
