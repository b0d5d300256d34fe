package k8sleader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/goleader/leader/internal/testserver"
)

// shared is the server of the tests that do it no harm; to start one takes seconds.
var shared struct {
	mu       sync.Mutex
	server   *testserver.KubeServer
	cleanups []func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range slices.Backward(shared.cleanups) {
		f()
	}
	os.Exit(code)
}

// lasting is the test that starts the server, which is to outlive it.
type lasting struct{ testing.TB }

// Context outlives the test.
func (l lasting) Context() context.Context { return context.WithoutCancel(l.TB.Context()) }

// TempDir outlives the test.
func (l lasting) TempDir() string {
	dir, err := os.MkdirTemp("", "leader-k8sleader-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	return dir
}

// Cleanup runs f after all tests.
func (l lasting) Cleanup(f func()) { shared.cleanups = append(shared.cleanups, f) }

// sharedCluster is an empty namespace of the shared server.
func sharedCluster(t testing.TB) *cluster {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		shared.server = testserver.Kube(lasting{t})
	}
	return newCluster(t, shared.server)
}

func dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext
}

// closeIdle ends the connections of a client.
func closeIdle(client kubernetes.Interface) {
	if connection, ok := client.CoordinationV1().RESTClient().(*rest.RESTClient); ok {
		utilnet.CloseIdleConnectionsFor(connection.Client.Transport)
	}
}

// wire sees the requests of one client, and may harm them.
type wire struct {
	next http.RoundTripper

	// before is called before a request is sent, which is refused with its error; after is called when an answer has
	// come, which is lost with its error.
	before, after hook

	requests, replies, watches, writes, closed atomic.Int64
}

// hook is a function that may be replaced at any time; the zero value does nothing.
type hook struct {
	f atomic.Pointer[func(request *http.Request) error]
}

func (h *hook) set(f func(request *http.Request) error) { h.f.Store(&f) }

func (h *hook) run(request *http.Request) error {
	if f := h.f.Load(); f != nil && *f != nil {
		return (*f)(request)
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	w.requests.Add(1)
	switch {
	case isWatch(request):
		w.watches.Add(1)
	case request.Method != http.MethodGet:
		w.writes.Add(1)
	}
	if err := w.before.run(request); err != nil {
		return answered(err)
	}
	response, err := w.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	w.replies.Add(1)
	if err := w.after.run(request); err != nil {
		return answered(errors.Join(err, response.Body.Close()))
	}
	return response, nil
}

// instead is an answer that a hook gives in the place of the server.
type instead struct{ response *http.Response }

func (*instead) Error() string { return "answered by something before the server" }

func answered(err error) (*http.Response, error) {
	if i, ok := errors.AsType[*instead](err); ok {
		return i.response, nil
	}
	return nil, err
}

// answer is what something before the server says to a request.
func answer(request *http.Request, status int, body io.ReadCloser) *instead {
	content := "text/plain"
	if status == http.StatusOK {
		content = "application/json"
	}
	return &instead{&http.Response{
		StatusCode: status, Request: request, Body: body, ContentLength: -1,
		Header: http.Header{"Content-Type": {content}},
	}}
}

// page is a body of text.
func page(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

// CloseIdleConnections closes those of the transport below.
func (w *wire) CloseIdleConnections() {
	w.closed.Add(1)
	utilnet.CloseIdleConnectionsFor(w.next)
}

func isWatch(request *http.Request) bool { return strings.Contains(request.URL.RawQuery, "watch=true") }

// wired is config for a client whose requests are seen.
func wired(config *rest.Config) (*rest.Config, *wire) {
	w := &wire{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.next = next
		return w
	})
	return config, w
}
