package k8sleader_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/k8sleader"
)

var errLostReply = errors.New("the reply was lost")

// openWired returns a backend and what sees its requests.
func openWired(t testing.TB, c *cluster) (*k8sleader.Backend, *wire) {
	t.Helper()
	config, w := wired(c.config)
	b := c.openWith(t, config)
	inspect(t, b, "warm-up")
	return b, w
}

// loseReplyOf makes the replies to one method get lost once.
func (w *wire) loseReplyOf(method string) {
	var done atomic.Bool
	w.after.set(func(request *http.Request) error {
		if request.Method == method && done.CompareAndSwap(false, true) {
			return errLostReply
		}
		return nil
	})
}

func TestBackend_LostReply_IsNoHarm(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	other := c.open(t)
	unknown := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errLostReply) || errors.Is(err, backend.ErrLost) || errors.Is(err, backend.ErrHeld) {
			t.Fatalf("%s: %v, want the lost reply", what, err)
		}
	}
	req := request("a", long)
	w.loseReplyOf(http.MethodPut)
	_, err := b.TryAcquire(t.Context(), req)
	unknown("TryAcquire", err)
	first := inspect(t, other, "a")
	lease := win(t, b, req)
	if lease.Fence() != first.Fence {
		t.Errorf("fence %d, and %d when the reply was lost", lease.Fence(), first.Fence)
	}

	w.loseReplyOf(http.MethodPatch)
	unknown("Renew", lease.Renew(t.Context(), long))
	renew(t, lease, long)
	renew(t, lease, long)

	w.loseReplyOf(http.MethodPatch)
	unknown("Release", lease.Release(t.Context(), time.Minute))
	if h := inspect(t, other, "a"); !h.Kept {
		t.Errorf("after the release: %+v", h)
	}
	release(t, lease, time.Minute)
	release(t, lease, 0)
	if !inspect(t, other, "a").Free() {
		t.Error("not free")
	}

	req = request("a", long)
	w.loseReplyOf(http.MethodPut)
	_, err = b.TryAcquire(t.Context(), req)
	unknown("TryAcquire", err)
	if err := b.Abandon(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	win(t, other, request("a", long))
}

func TestBackend_LostReply_OfASlotLeavesNoSecondOne(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	const n = 3
	for range 5 {
		req := request("group", long)
		w.loseReplyOf(http.MethodPut)
		if _, _, err := b.TryAcquireSlot(t.Context(), req, n); !errors.Is(err, errLostReply) {
			t.Fatalf("TryAcquireSlot: %v", err)
		}
		lease, _, err := b.TryAcquireSlot(t.Context(), req, n)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for slot := range n {
			if !inspect(t, b, backend.SlotKey("group", slot)).Free() {
				held++
			}
		}
		if held != 1 {
			t.Fatalf("%d slots are held by one token", held)
		}
		release(t, lease, 0)
	}
}

// hold keeps the next request of a method until it is let go, whatever becomes of its caller, and sends it then.
func (w *wire) hold(method string) (caught <-chan error, letGo func(t testing.TB)) {
	held, sent := make(chan error), make(chan error, 1)
	release := make(chan struct{})
	var done atomic.Bool
	w.before.set(func(request *http.Request) error {
		if request.Method != method || !done.CompareAndSwap(false, true) {
			return nil
		}
		body, err := request.GetBody()
		if err != nil {
			return err
		}
		late := request.Clone(context.WithoutCancel(request.Context()))
		late.Body = body
		go func() {
			<-release
			response, err := w.next.RoundTrip(late)
			if err == nil {
				err = response.Body.Close()
			}
			sent <- err
		}()
		close(held)
		<-request.Context().Done()
		return request.Context().Err()
	})
	return held, func(t testing.TB) {
		t.Helper()
		close(release)
		if err := receive(t, sent); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackend_LateRequest_OpensNoTerm(t *testing.T) {
	for method, prepare := range map[string]func(t testing.TB, b backend.Driver){
		http.MethodPost: func(testing.TB, backend.Driver) {},
		http.MethodPut:  func(t testing.TB, b backend.Driver) { release(t, win(t, b, request("a", long)), 0) },
	} {
		t.Run(method, func(t *testing.T) {
			c := sharedCluster(t)
			b, w := openWired(t, c)
			other := c.open(t)
			prepare(t, b)
			caught, letGo := w.hold(method)
			ctx, cancel := context.WithCancel(t.Context())
			req := request("a", long)
			result := make(chan error, 1)
			go func() {
				_, err := b.TryAcquire(ctx, req)
				result <- err
			}()
			if err := receive(t, caught); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := receive(t, result); !errors.Is(err, context.Canceled) {
				t.Fatalf("TryAcquire: %v", err)
			}
			if err := b.Abandon(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			letGo(t)
			if h := inspect(t, other, "a"); !h.Free() {
				t.Errorf("an abandoned attempt that came late holds the key: %+v", h)
			}
			_, err := b.TryAcquire(t.Context(), req)
			lost(t, "a repeated attempt", err)
			win(t, other, request("a", long))
		})
	}
}

func TestLease_Renew_LateOneShortensNothing(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	lease := win(t, b, request("a", brief))
	caught, letGo := w.hold(http.MethodPatch)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- lease.Renew(ctx, brief) }()
	if err := receive(t, caught); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := receive(t, result); !errors.Is(err, context.Canceled) {
		t.Fatalf("Renew: %v", err)
	}
	renew(t, lease, long)
	letGo(t)
	if got := c.get(t, "a").Annotations[note("ttl")]; got != long.String() {
		t.Errorf("after the late renewal the TTL is %s, want %v", got, long)
	}
	renew(t, lease, long)
}

// A stranger changes the object before each of our conditioned writes.
func TestBackend_Conflict_IsRetriedAtOnceThreeTimesAtMost(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	release(t, win(t, b, request("a", long)), 0)
	for _, test := range []struct {
		conflicts, writes int
		held              bool
	}{{0, 1, false}, {1, 2, false}, {3, 4, false}, {4, 4, true}, {100, 4, true}} {
		left := test.conflicts
		w.before.set(func(request *http.Request) error {
			if request.Method == http.MethodPut && left > 0 {
				left--
				c.edit(t, "a", func(lease *coordinationv1.Lease) { lease.Annotations["touched"] = time.Now().String() })
			}
			return nil
		})
		before := w.writes.Load()
		began := time.Now()
		lease, err := b.TryAcquire(t.Context(), request("a", long))
		if errors.Is(err, backend.ErrHeld) != test.held || err != nil && !test.held {
			t.Fatalf("%d conflicts: %v", test.conflicts, err)
		}
		if writes := int(w.writes.Load() - before); writes != test.writes {
			t.Errorf("%d conflicts: %d writes, want %d", test.conflicts, writes, test.writes)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%d conflicts took %v", test.conflicts, took)
		}
		w.before.set(nil)
		if err == nil {
			release(t, lease, 0)
		}
	}
}

func TestBackend_TryAcquire_CostsOneWriteWhenTheKeyWasFree(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	count := func(what string, requests, writes int64, f func()) {
		t.Helper()
		r, s := w.requests.Load(), w.writes.Load()
		f()
		if r, s = w.requests.Load()-r, w.writes.Load()-s; r != requests || s != writes {
			t.Errorf("%s: %d requests, %d of them writes, want %d and %d", what, r, s, requests, writes)
		}
	}
	var lease backend.Lease
	count("the first acquisition", 3, 2, func() { lease = win(t, b, request("a", long)) })
	count("a renewal", 1, 1, func() { renew(t, lease, long) })
	count("a losing attempt", 1, 0, func() { holder(t, b, "a") })
	count("a release", 1, 1, func() { release(t, lease, 0) })
	count("an acquisition", 1, 1, func() { lease = win(t, b, request("a", long)) })
	release(t, lease, 0)
	other := c.open(t)
	win(t, other, request("a", long))
	count("a losing attempt that expected a free key", 2, 1, func() { holder(t, b, "a") })
	count("a losing attempt", 1, 0, func() { holder(t, b, "a") })

	slot := func() {
		t.Helper()
		var err error
		if lease, _, err = b.TryAcquireSlot(t.Context(), request("group", long), 1); err != nil {
			t.Fatal(err)
		}
	}
	slot()
	release(t, lease, 0)
	count("a slot", 2, 1, slot)
}

// A standby whose connection froze must not find it dead when the holder dies after the thaw.
func TestCampaign_FrozenStandby_LeadsSoonAfterTheThaw(t *testing.T) {
	c := sharedCluster(t)
	host, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := netfault.Listen(t.Context(), host.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	const lease = 2 * brief
	win(t, c.open(t), request("job", lease)) // it dies at once
	e, err := leader.New(c.openWith(t, through(c.config, proxy.Addr())), leader.WithLeaseTime(lease), leader.WithLogger(quiet()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var led atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- e.Campaign(ctx, "job", func(context.Context) error {
			led.CompareAndSwap(0, time.Now().UnixNano())
			cancel()
			return nil
		})
	}()
	time.Sleep(lease / 4) // it waits
	proxy.Drop()
	time.Sleep(2 * lease)
	proxy.Mend()
	healed := time.Now()
	if err := receive(t, done); led.Load() == 0 {
		t.Fatalf("never led: %v", err)
	}
	if took := time.Unix(0, led.Load()).Sub(healed); took > 2*lease {
		t.Errorf("led %v after the connection was mended, want a lease and two requests at most", took)
	}
}

func TestBackend_Errors_TellWhatTheyMean(t *testing.T) {
	c := sharedCluster(t)
	b := open(t, clientOf(t, c.config).CoordinationV1(), "missing-namespace")
	_, err := b.TryAcquire(t.Context(), request("a", long))
	if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "missing-namespace") {
		t.Errorf("a namespace that does not exist: %v, of kind %v", err, backend.KindOf(err))
	}
	config := through(c.config, "127.0.0.1:1")
	_, err = c.openWith(t, config).TryAcquire(t.Context(), request("a", long))
	if backend.KindOf(err) != backend.Unavailable {
		t.Errorf("no server: %v, of kind %v", err, backend.KindOf(err))
	}
	config = through(c.config, strings.TrimPrefix(c.config.Host, "https://"))
	config.BearerToken, config.BearerTokenFile = "wrong", ""
	_, err = c.openWith(t, config).TryAcquire(t.Context(), request("a", long))
	if backend.KindOf(err) != backend.Denied {
		t.Errorf("a wrong token: %v, of kind %v", err, backend.KindOf(err))
	}
}
