package dynamoleader_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/dynamoleader"
)

// through returns a backend whose connections go through a proxy, the proxy, and another backend on the same table.
func through(t testing.TB) (b *dynamoleader.Backend, proxy *netfault.Proxy, other *dynamoleader.Backend) {
	t.Helper()
	s := newTable(t)
	proxy = behind(t, s.server)
	b = s.openWith(t, by(s.server.URL(), s.server.Addr(), proxy))
	inspect(t, b, "warm-up") // so that the service's time is known
	return b, proxy, s.open(t)
}

// by leads to a server through a proxy.
func by(url, addr string, proxy *netfault.Proxy) func(o *dynamodb.Options) {
	url = strings.Replace(url, addr, proxy.Addr(), 1)
	return func(o *dynamodb.Options) { o.BaseEndpoint = &url }
}

func contains(words ...string) func(request []byte) bool {
	return func(request []byte) bool {
		for _, word := range words {
			if !bytes.Contains(request, []byte(word)) {
				return false
			}
		}
		return true
	}
}

// caught waits for the trap.
func caught(t testing.TB, trap *netfault.Trap) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := trap.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// caughtIn makes a call, and ends it once its request or its reply is in the trap.
func caughtIn(t testing.TB, trap *netfault.Trap, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- call(ctx) }()
	caught(t, trap)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("a call that is caught: %v, want that it was canceled", err)
	}
}

// attempt is TryAcquire without its lease.
func attempt(b backend.Driver, req backend.Request) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := b.TryAcquire(ctx, req)
		return err
	}
}

// The SDK ends a call with its context, at the deadline and at a cancellation, hence no Limits.Blocking.
func TestBackend_FrozenConnection_EndsACallWithItsContext(t *testing.T) {
	b, proxy, _ := through(t)
	if l := b.Limits(); l.Blocking || l.Punctual {
		t.Errorf("limits %+v", l)
	}
	lease := win(t, b, request("a", long))
	proxy.Freeze()
	defer proxy.Thaw()
	var calls sync.WaitGroup
	defer calls.Wait()
	for name, call := range map[string]func(ctx context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("b", long)); return err },
		"Inspect":    func(ctx context.Context) error { _, err := b.Inspect(ctx, "a"); return err },
		"Renew":      func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":    func(ctx context.Context) error { return lease.Release(ctx, 0) },
		"Abandon":    func(ctx context.Context) error { return b.Abandon(ctx, request("b", long)) },
		"Break":      func(ctx context.Context) error { return b.Break(ctx, "a", 1) },
		"TryAcquireSlot": func(ctx context.Context) error {
			_, _, err := b.TryAcquireSlot(ctx, request("b", long), 3)
			return err
		},
		"GetRecords": func(ctx context.Context) error { _, _, err := b.GetRecords(ctx, "a!b/"); return err },
		"Advise":     func(ctx context.Context) error { _, err := b.Advise(ctx); return err },
		"Migrate":    func(ctx context.Context) error { return b.Migrate(ctx) },
	} {
		ends := func(how string, ctx context.Context, want error) {
			began := time.Now()
			err := call(ctx)
			if !errors.Is(err, want) {
				t.Errorf("%s at a %s: %v, want an error that wraps %q", name, how, err, want)
			}
			kind(t, name+" at a "+how, err, backend.Unavailable)
			if took := time.Since(began); took > brief+2*time.Second {
				t.Errorf("%s went on for %v after a %s", name, took-brief, how)
			}
		}
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			ends("deadline", ctx, context.DeadlineExceeded)
		})
		calls.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(brief, cancel)
			ends("cancellation", ctx, context.Canceled)
		})
	}
}

func TestBackend_LostReply_IsRepeatedWithTheSameFence(t *testing.T) {
	b, proxy, other := through(t)
	req := request("a", long)
	caughtIn(t, proxy.SwallowReply(contains("UpdateItem")), attempt(b, req))
	held := inspect(t, other, "a")
	if held.Free() {
		t.Fatal("the attempt was not applied")
	}
	lease := win(t, b, req)
	if lease.Fence() != held.Fence {
		t.Errorf("fence %d, and %d in the item", lease.Fence(), held.Fence)
	}

	caughtIn(t, proxy.SwallowReply(contains("UpdateItem")), func(ctx context.Context) error {
		return lease.Renew(ctx, 2*long)
	})
	renew(t, lease, long)
	if h := inspect(t, other, "a"); h.Remaining < 2*long-patience {
		t.Errorf("%v remain after a renewal whose answer was lost", h.Remaining)
	}
}

func TestBackend_Abandon_StopsAnAttemptThatArrivesLater(t *testing.T) {
	for key, prepare := range map[string]func(b backend.Driver){
		"fresh": func(backend.Driver) {},
		"used":  func(b backend.Driver) { release(t, win(t, b, request("used", long)), 0) },
	} {
		b, proxy, other := through(t)
		prepare(other)
		req := request(key, long)
		abandonedLate(t, b, other, proxy, req)
	}
}

// An attempt to take over is conditioned on an item that may still be as it was.
func TestBackend_Abandon_StopsATakeOverThatArrivesLater(t *testing.T) {
	b, proxy, other := through(t)
	win(t, other, request("a", brief))
	inspect(t, b, "a")
	time.Sleep(brief + 50*time.Millisecond)
	abandonedLate(t, b, b, proxy, request("a", long))
}

// abandonedLate holds an attempt back until it is abandoned.
func abandonedLate(t *testing.T, b, other backend.Driver, proxy *netfault.Proxy, req backend.Request) {
	t.Helper()
	trap := proxy.HoldRequest(contains("UpdateItem"))
	caughtIn(t, trap, attempt(b, req))
	if err := other.Abandon(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if err := trap.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It arrives before long; twenty looks are enough to be sure.
	for range 20 {
		if h := inspect(t, other, req.Key); !h.Free() {
			t.Fatalf("the late attempt opened a term: %+v", h)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := attempt(b, req)(t.Context()); !errors.Is(err, backend.ErrLost) {
		t.Errorf("the abandoned token: %v, want ErrLost", err)
	}
}

func TestLease_Renew_LateOneShortensNothing(t *testing.T) {
	b, proxy, other := through(t)
	const short = 5 * time.Second // enough for what comes before the longer one
	lease := win(t, b, request("a", short))
	trap := proxy.HoldRequest(contains("UpdateItem"))
	caughtIn(t, trap, func(ctx context.Context) error { return lease.Renew(ctx, short) })
	renew(t, lease, long)
	if err := trap.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if h := inspect(t, other, "a"); h.Remaining < long-patience {
			t.Fatalf("%v remain after a late renewal", h.Remaining)
		}
		time.Sleep(5 * time.Millisecond)
	}
	renew(t, lease, long)
}

// Connections that lay idle when the network went silent would swallow one request after the other.
func TestBackend_UnansweredCall_ClosesIdleConnections(t *testing.T) {
	s := newTable(t)
	for name, transport := range map[string]func() dynamodb.HTTPClient{
		"the SDK's own client": func() dynamodb.HTTPClient { return awshttp.NewBuildableClient() },
		"a client of net/http": func() dynamodb.HTTPClient { return ownConnections(t) },
	} {
		// A proxy whose connections of before are dead, and whose new ones are not.
		var mu sync.Mutex
		target := behind(t, s.server)
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			mu.Lock()
			addr := target.Addr()
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		given := transport()
		switch given := given.(type) {
		case *awshttp.BuildableClient:
			b := given.WithTransportOptions(func(tr *http.Transport) { tr.DialContext = dial })
			transport = func() dynamodb.HTTPClient { return b }
		case *http.Client:
			given.Transport.(*http.Transport).DialContext = dial
			transport = func() dynamodb.HTTPClient { return given }
		}
		b := s.openWith(t, func(o *dynamodb.Options) { o.HTTPClient = transport() })
		eventually(t, "several connections are idle", func() bool {
			var together sync.WaitGroup
			for range 8 {
				together.Go(func() { inspect(t, b, "a") })
			}
			together.Wait()
			return target.Connections() > 1
		})
		dead := target
		dead.Drop()
		mu.Lock()
		target = behind(t, s.server)
		mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 2*brief)
		_, err := b.Inspect(ctx, "a")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: Inspect over a dead connection: %v", name, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), patience)
		if _, err := b.Inspect(ctx, "a"); err != nil {
			t.Errorf("%s: the next call: %v", name, err)
		}
		cancel()
	}
}

func TestBackend_Close_ClosesItsOwnConnections(t *testing.T) {
	s := newTable(t)
	proxy := behind(t, s.server)
	b := s.openWith(t, func(o *dynamodb.Options) {
		by(s.server.URL(), s.server.Addr(), proxy)(o)
		o.HTTPClient = awshttp.NewBuildableClient()
	})
	lease := win(t, b, request("a", long))
	if proxy.Connections() == 0 {
		t.Fatal("no connection stays open")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no connection is left", func() bool { return proxy.Connections() == 0 })
	renew(t, lease, long)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := dynamoleader.New(nil, nil).Close(); err != nil {
		t.Error(err)
	}
}

func TestBackend_FailingAttempts_LeaveNoConnectionAndNoGoroutine(t *testing.T) {
	b, proxy, other := through(t)
	lease := win(t, b, request("a", long))
	before, connections := runtime.NumGoroutine(), proxy.Connections()
	fail := func(n, atOnce int, within time.Duration) {
		var calls sync.WaitGroup
		for range atOnce {
			calls.Go(func() {
				for range n / atOnce {
					ctx, cancel := context.WithTimeout(t.Context(), within)
					if _, err := b.TryAcquire(ctx, request("b", long)); err == nil {
						t.Error("an attempt over a broken connection succeeded")
					}
					cancel()
				}
			})
		}
		calls.Wait()
	}
	proxy.Freeze()
	fail(200, 10, 20*time.Millisecond)
	proxy.Thaw()
	proxy.Cut()
	fail(200, 10, 20*time.Millisecond)
	proxy.Mend()
	eventually(t, "the backend works again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return lease.Renew(ctx, long) == nil
	})
	eventually(t, "no connection is left but those of the client", func() bool { return proxy.Connections() <= connections+2 })
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+10 })
	if err := other.Abandon(t.Context(), request("b", long)); err != nil {
		t.Error(err)
	}
}

func TestBackend_ServerAway_IsUnavailable(t *testing.T) {
	server := ownTable(t)
	b := dial(t, server.Addr())
	lease := win(t, b, request("a", long))
	server.Kill9(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("b", long)); return err },
		"Renew":      func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":    func(ctx context.Context) error { return lease.Release(ctx, 0) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		kind(t, name, call(ctx), backend.Unavailable)
		cancel()
	}
	server.Restart(t)
	eventually(t, "the lease is renewed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return lease.Renew(ctx, long) == nil
	})
}
