package browsertest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/internal/testserver"
	"github.com/goleader/leader/status"
)

// world is a store with nodes that lead, and a page that shows it.
type world struct {
	t        *testing.T
	server   *testserver.Server
	client   *redis.Client
	page     *status.Page
	http     *httptest.Server
	recorder *history.Recorder
	url      string
}

// newWorld serves a page of a new store. Nodes of other processes are electors without the page's hooks.
func newWorld(t *testing.T, opts status.Options) *world {
	t.Helper()
	w := &world{t: t, server: testserver.Redis(t)}
	w.client = w.connect()
	memory := history.NewMemory(0)
	w.recorder = history.NewRecorder(memory, nil)
	opts.History = status.InMemory(memory)
	page, err := status.New(redisleader.New(w.client, nil), &opts)
	if err != nil {
		t.Fatal(err)
	}
	w.page = page
	mux := http.NewServeMux()
	mux.Handle("/management/", page)
	mux.Handle("/healthz", page.Health())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(page.Close)
	w.http = server
	w.url = server.URL + status.DefaultPath + "/"
	return w
}

func (w *world) connect() *redis.Client {
	options, err := redis.ParseURL(w.server.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	client := redis.NewClient(options)
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

// node is an elector with a client of its own, whose runs are recorded.
func (w *world) node(id string, opts ...leader.Option) *leader.Single {
	w.t.Helper()
	elector, err := leader.New(redisleader.New(w.client, nil), w.options(id, opts)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return elector
}

func (w *world) options(id string, opts []leader.Option) []leader.Option {
	return append([]leader.Option{leader.WithNodeID(id), leader.WithHooks(w.recorder.Hooks())}, opts...)
}

// term is somebody who leads until it is told to end.
type term struct {
	stop context.CancelFunc
	done chan struct{}
}

func (t *term) end() {
	t.stop()
	<-t.done
}

// campaigner is any elector.
type campaigner interface {
	Campaign(ctx context.Context, name string, lead leader.Action, opts ...leader.RunOption) error
}

// lead campaigns for a name in the background, and returns once it leads. It ends with the test.
func (w *world) lead(elector campaigner, name string, opts ...leader.RunOption) *term {
	w.t.Helper()
	leads := make(chan struct{})
	t := w.background(func(ctx context.Context) error {
		return elector.Campaign(ctx, name, func(ctx context.Context) error {
			close(leads)
			<-ctx.Done()
			return ctx.Err()
		}, opts...)
	})
	select {
	case <-leads:
	case <-time.After(watchdog):
		w.t.Fatalf("nobody leads %q", name)
	}
	return t
}

func (w *world) background(f func(ctx context.Context) error) *term {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	t := &term{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		if err := f(ctx); err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(t.end)
	return t
}
