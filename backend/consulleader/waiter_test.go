package consulleader_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
)

// await starts to wait and returns the result.
func await(ctx context.Context, b backend.Waiter, key, seen string) <-chan error {
	result := make(chan error, 1)
	go func() { result <- b.AwaitRelease(ctx, key, seen) }()
	return result
}

// result receives before the watchdog barks.
func result(t testing.TB, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatalf("still waiting after %v: %s", patience, what)
		return nil
	}
}

func TestBackend_AwaitRelease_SharesOneQueryPerKey(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, nil)
	lease := win(t, open(t, connect(t, server), nil), request("a", long))
	seen := inspect(t, b, "a").Seen
	before := f.count("GET ")
	var waits []<-chan error
	for range 50 {
		waits = append(waits, await(t.Context(), b, "a", seen))
	}
	eventually(t, "the key is watched", func() bool { return f.count("index=") > 0 })
	if n := f.count("GET ") - before; n > 3 {
		t.Errorf("%d queries for 50 waiters", n)
	}
	release(t, lease, 0)
	for _, wait := range waits {
		if err := result(t, "the release", wait); err != nil {
			t.Errorf("AwaitRelease: %v", err)
		}
	}
}

func TestBackend_AwaitRelease_SurvivesAnIndexThatGoesBack(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, nil)
	lease := win(t, open(t, connect(t, server), nil), request("a", long))
	seen := inspect(t, b, "a").Seen
	// The first answer is of a history that was longer.
	f.once(func(r *http.Request) (*http.Response, error) {
		resp, err := f.base.RoundTrip(r)
		if err == nil {
			resp.Header.Set("X-Consul-Index", "999999999")
		}
		return resp, err
	}, "GET /v1/kv/leader/a", "wait=")
	wait := await(t.Context(), b, "a", seen)
	eventually(t, "the key is watched", func() bool { return f.count("index=999999999") > 0 })
	f.set(nil)
	release(t, lease, 0)
	if err := result(t, "the release", wait); err != nil {
		t.Errorf("AwaitRelease: %v", err)
	}
}

func TestBackend_AwaitRelease_AsksAnewWhenTheIndexGoesBack(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, nil)
	win(t, open(t, connect(t, server), nil), request("a", long))
	seen := inspect(t, b, "a").Seen
	// Each second answer is of an earlier history, and comes at once.
	var n atomic.Int64
	f.set(func(r *http.Request, _ string) (*http.Response, error) {
		if r.Method != http.MethodGet || !r.URL.Query().Has("index") {
			return nil, errPass
		}
		query := r.URL.Query()
		query.Del("index")
		again := r.Clone(r.Context())
		again.URL.RawQuery = query.Encode()
		resp, err := f.base.RoundTrip(again)
		if first := n.Add(1) == 1; err == nil && first {
			resp.Header.Set("X-Consul-Index", "1")
		}
		return resp, err
	})
	version, err := strconv.Atoi(seen)
	if err != nil {
		t.Fatal(err)
	}
	// Whoever saw a version of the lost history learns of the new one.
	for _, future := range []int{version, version + 1000} {
		if err := result(t, "the new history", await(t.Context(), b, "a", strconv.Itoa(future))); err != nil {
			t.Errorf("AwaitRelease: %v", err)
		}
		n.Store(0)
	}
}

func TestBackend_AwaitRelease_FailsBeyondItsWatchesAndMakesRoom(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	other := open(t, connect(t, server), nil)
	b, f := through(t, server, &consulleader.Options{MaxWatches: 2})
	seen := map[string]string{}
	for _, key := range []string{"a", "b", "c"} {
		win(t, other, request(key, long))
		seen[key] = inspect(t, b, key).Seen
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := []<-chan error{await(ctx, b, "a", seen["a"]), await(ctx, b, "b", seen["b"])}
	eventually(t, "two keys are watched", func() bool {
		return f.count("leader/a", "index=") > 0 && f.count("leader/b", "index=") > 0
	})
	kind(t, "the third", b.AwaitRelease(t.Context(), "c", seen["c"]), backend.Unavailable)
	cancel()
	for _, wait := range waits {
		if err := result(t, "the end of the context", wait); !errors.Is(err, context.Canceled) {
			t.Errorf("AwaitRelease: %v", err)
		}
	}
	eventually(t, "there is room again", func() bool {
		short, cancel := context.WithTimeout(t.Context(), brief)
		defer cancel()
		return errors.Is(b.AwaitRelease(short, "c", seen["c"]), context.DeadlineExceeded)
	})
}

func TestBackend_AwaitRelease_FailsWhenTheServerIsGone(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b := open(t, connect(t, server), nil)
	win(t, b, request("a", long))
	wait := await(t.Context(), b, "a", inspect(t, b, "a").Seen)
	server.Kill9(t)
	kind(t, "AwaitRelease", result(t, "the end of the server", wait), backend.Unavailable)
}

func TestBackend_Close_EndsThoseWhoWait(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, nil)
	win(t, open(t, connect(t, server), nil), request("a", long))
	wait := await(t.Context(), b, "a", inspect(t, b, "a").Seen)
	eventually(t, "the key is watched", func() bool { return f.count("index=") > 0 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := result(t, "Close", wait); err == nil {
		t.Error("AwaitRelease: nil")
	}
}

// A watch that fails is no loss: what ends a lease is its deadline, or the answer of a renewal.
func TestLease_Lost_IsNoFalseAlarmWhenTheWatchFails(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b, f := through(t, server, noDelay)
	f.set(func(r *http.Request, _ string) (*http.Response, error) {
		if r.URL.Query().Has("wait") {
			return nil, errors.New("connection reset by peer")
		}
		return nil, errPass
	})
	lease := win(t, b, request("a", long))
	lost := lease.(backend.LossNotifier).Lost()
	eventually(t, "watching has failed often", func() bool {
		renew(t, lease)
		select {
		case <-lost:
			t.Fatal("told of a loss, and the lease is held")
		default:
		}
		return f.count("wait=") >= 10
	})
	f.set(nil)
	renew(t, lease)
	destroy(t, client, pair(t, client, "a").Session)
	waitLost(t, lease)
}

// What an old answer shows is no loss, since it may be older than the lease.
func TestLease_Lost_IsNotToldByAnOldAnswer(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, nil)
	f.set(func(r *http.Request, _ string) (*http.Response, error) {
		if !r.URL.Query().Has("wait") || r.URL.Query().Has("index") {
			return nil, errPass
		}
		header := http.Header{"X-Consul-Index": {"2"}, "X-Consul-Lastcontact": {"0"}}
		return &http.Response{StatusCode: http.StatusNotFound, Header: header, Body: http.NoBody, Request: r}, nil
	})
	lease := win(t, b, request("a", long))
	lost := lease.(backend.LossNotifier).Lost()
	eventually(t, "the next answer is newer", func() bool { return f.count("index=2") > 0 })
	select {
	case <-lost:
		t.Error("told of a loss, and the lease is held")
	case <-time.After(brief):
	}
	renew(t, lease)
}

func TestBackend_Watch_ShowsEachHolderOnceAndEndsOnWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	type sight struct {
		h   backend.Holder
		err error
	}
	sights := make(chan sight, 100)
	go func() {
		defer close(sights)
		for h, err := range b.Watch(t.Context(), "a") {
			sights <- sight{h, err}
		}
	}()
	next := func() sight {
		t.Helper()
		select {
		case s := <-sights:
			return s
		case <-time.After(patience):
			t.Fatal("nothing is shown")
			return sight{}
		}
	}
	if s := next(); !s.h.Free() || s.err != nil {
		t.Errorf("at first %+v", s)
	}
	win(t, b, request("beside", long)) // moves the index of a missing key
	lease := win(t, b, request("a", long))
	if s := next(); s.h.Fence != lease.Fence() || s.err != nil {
		t.Errorf("after the acquisition %+v", s)
	}
	if _, err := client.KV().Put(&api.KVPair{Key: "leader/a", Value: []byte("foreign")}, nil); err != nil {
		t.Fatal(err)
	}
	s := next()
	kind(t, "a foreign value", s.err, backend.Misconfigured)
}

func TestBackend_AwaitRelease_SeesTheEndOfASession(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b, f := through(t, server, nil)
	win(t, open(t, client, nil), request("a", long))
	wait := await(t.Context(), b, "a", inspect(t, b, "a").Seen)
	eventually(t, "the key is watched", func() bool { return f.count("index=") > 0 })
	destroy(t, client, pair(t, client, "a").Session)
	if err := result(t, "the end of the session", wait); err != nil {
		t.Errorf("AwaitRelease: %v", err)
	}
}

func TestBackend_Watch_CountsAgainstTheWatches(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b := open(t, connect(t, server), &consulleader.Options{MaxWatches: 1})
	win(t, b, request("a", long))
	seen := inspect(t, b, "a").Seen
	for _, err := range b.Watch(t.Context(), "b") {
		if err != nil {
			t.Fatal(err)
		}
		kind(t, "AwaitRelease beside it", b.AwaitRelease(t.Context(), "a", seen), backend.Unavailable)
		for _, err := range b.Watch(t.Context(), "c") {
			kind(t, "a second Watch", err, backend.Unavailable)
		}
		break
	}
	short, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if err := b.AwaitRelease(short, "a", seen); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AwaitRelease after it: %v", err)
	}
}

func TestBackend_MaxWatches_MayBeNone(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, &consulleader.Options{MaxWatches: -1})
	lease := win(t, b, request("a", long))
	_ = lease.(backend.LossNotifier).Lost()
	<-time.After(2 * consulleader.LossDelay)
	renew(t, lease)
	kind(t, "AwaitRelease", b.AwaitRelease(t.Context(), "a", inspect(t, b, "a").Seen), backend.Unavailable)
	if n := f.count("wait="); n > 0 {
		t.Errorf("%d blocking queries", n)
	}
}
