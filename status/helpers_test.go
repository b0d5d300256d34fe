package status_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

// watchdog is the longest that anything is waited for.
const watchdog = 20 * time.Second

const path = status.DefaultPath

// store is a local store that can fail.
type store struct {
	*local.Backend
	outage   atomic.Pointer[error]
	hangs    atomic.Bool
	lists    atomic.Int64
	inspects atomic.Int64
}

func newStore() *store { return &store{Backend: local.New()} }

var errDown = backend.WithKind(errors.New("dial tcp: redis://admin:hunter2@db:6379 refused"), backend.Unavailable)

func (s *store) down(err error) { s.outage.Store(&err) }
func (s *store) up()            { s.outage.Store(nil) }

// fails returns the failure, after a long while if the store hangs.
func (s *store) fails() error {
	if s.hangs.Load() {
		time.Sleep(4 * time.Second) // as a driver does that misses its context's end
	}
	if err := s.outage.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *store) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		s.lists.Add(1)
		if err := s.fails(); err != nil {
			yield(backend.Entry{}, err)
			return
		}
		s.Backend.List(ctx, prefix, all)(yield)
	}
}

func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	s.inspects.Add(1)
	if err := s.fails(); err != nil {
		return backend.Holder{}, err
	}
	return s.Backend.Inspect(ctx, key)
}

func (s *store) Break(ctx context.Context, key string, fence uint64) error {
	if err := s.fails(); err != nil {
		return err
	}
	return s.Backend.Break(ctx, key, fence)
}

// plain is a store that cannot list, nor end leases.
type plain struct{ backend.Driver }

func newPage(t *testing.T, d backend.Driver, opts *status.Options) *status.Page {
	t.Helper()
	if opts == nil {
		opts = &status.Options{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	p, err := status.New(d, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newElector(t *testing.T, d backend.Driver, node string, opts ...leader.Option) *leader.Single {
	t.Helper()
	e, err := leader.New(d, append([]leader.Option{leader.WithNodeID(node)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func acquire(t *testing.T, e interface {
	Acquire(ctx context.Context, name string, opts ...leader.RunOption) (*leader.Lease, error)
}, name string, opts ...leader.RunOption,
) *leader.Lease {
	t.Helper()
	l, err := e.Acquire(t.Context(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) })
	return l
}

func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))
	return w
}

// document is the JSON as a program reads it.
type document struct {
	Locks    []lock
	Gone     []struct{ Name string }
	Events   []struct{ Name, Node, Status, By, Fence, Error, Lost, Holder, Reason string }
	Backend  string
	Asked    *time.Time
	Age      *float64
	Stale    bool
	Problems []string
	Omitted  int
	Release  bool
	Full     bool
}

type lock struct {
	Name, Namespace, Status, Fence string
	Group, Kept                    bool
	LeaderID                       *string
	LastLeaderID                   string
	LeaseExpiry, Since             *time.Time
	Remaining, LeaseTime           *float64
	Capacity                       int
	Metadata                       map[string]string
	Slots                          []struct {
		Slot     int
		LeaderID *string
		Fence    string
	}
	Candidates []struct {
		Node, Why string
		Preferred bool
		Score     *float64
	}
}

func (d *document) lock(t *testing.T, name string) lock {
	t.Helper()
	for _, l := range d.Locks {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("%q is not among %+v", name, d.Locks)
	return lock{}
}

func snapshot(t *testing.T, h http.Handler) document {
	t.Helper()
	w := get(t, h, path)
	var d document
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return d
}

// stream is what a browser that watches gets.
type stream struct {
	t     *testing.T
	end   context.CancelFunc
	lines *bufio.Scanner
}

// watch opens a stream from a server. It ends with the test.
func watch(t *testing.T, server *httptest.Server) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the stream answers %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	return &stream{t: t, end: cancel, lines: lines}
}

// next returns the next message; ok is false when the stream has ended.
func (s *stream) next() (d document, ok bool) {
	s.t.Helper()
	for s.lines.Scan() {
		if strings.HasPrefix(s.lines.Text(), "event: ") {
			s.lines.Scan() // what it has to say is for no document
			continue
		}
		text, found := strings.CutPrefix(s.lines.Text(), "data: ")
		if !found {
			continue
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
		return d, true
	}
	return d, false
}

// until reads messages up to one that is wanted.
func (s *stream) until(what string, wanted func(d document) bool) document {
	s.t.Helper()
	stop := time.AfterFunc(watchdog, s.end)
	defer stop.Stop()
	for {
		d, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream has ended before: %s", what)
		}
		if wanted(d) {
			return d
		}
	}
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > watchdog {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// post asks for a forced release.
func post(t *testing.T, h http.Handler, form url.Values, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com"+path+"/release",
		strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func inMemory() (status.History, *history.Memory) {
	m := history.NewMemory(0)
	return status.InMemory(m), m
}

func (f fixed) Name() string { return "fixed" }

func (f fixed) TryAcquire(context.Context, backend.Request) (backend.Lease, error) {
	return nil, backend.ErrHeld
}
func (f fixed) Abandon(context.Context, backend.Request) error          { return nil }
func (f fixed) Inspect(context.Context, string) (backend.Holder, error) { return f.Holder, nil }

func (f fixed) List(context.Context, string, bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) { yield(f.Entry, nil) }
}
