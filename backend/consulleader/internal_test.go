package consulleader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

func FuzzEscape(f *testing.F) {
	for _, seed := range []string{
		"nightly", "ns/nightly", "job#0", "job!candidate/web-1", "..", ".", "a/../b", "//", "a//b", "/a", "a/", "%", "%2F",
		"a b", "日本", "\u200b", "a\xffb", "", "a.b", ".records/x", "~", "+",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		escaped := escape(key)
		if back, ok := unescape(escaped); back != key || ok != (key != "") {
			t.Errorf("%q became %q and then %q, %t", key, escaped, back, ok)
		}
		if strings.HasPrefix(escaped, "/") || strings.HasSuffix(escaped, "/") || strings.Contains(escaped, "//") ||
			strings.HasPrefix(escaped, ".") || strings.Contains(escaped, "/.") {
			t.Errorf("%q became %q, a path that is cleaned on its way", key, escaped)
		}
		if u := (&url.URL{Path: "/v1/kv/" + escaped}); u.JoinPath().Path != u.Path {
			t.Errorf("%q became %q, which is cleaned to %q", key, escaped, u.JoinPath().Path)
		}
		if clean, ok := unescape(key); ok && escape(clean) != key {
			t.Errorf("%q is taken for the escaped %q", key, clean)
		}
	})
}

func TestEscape_KeepsPlainNamesReadable(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"nightly": "nightly", "team/nightly": "team/nightly", "job#12": "job#12", "job!candidate/web-1": "job!candidate/web-1",
		"v1.2": "v1.2", "a b": "a%20b", "..": "%2E.", "a%sb": "a%25sb",
	} {
		if got := escape(key); got != want {
			t.Errorf("%q became %q, want %q", key, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := newRecord(backend.Request{Token: "T", Owner: "o", TTL: minTTL, Metadata: map[string]string{"a": "b"}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(good), `{"format":2}`, `{"format":1}`, `{}`, ``, `null`, `[]`, `1 10 0 x`, `1 1 1 `, `2 0 0 `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		pair := &api.KVPair{Key: "k", Value: value, Session: "s", CreateIndex: 7, ModifyIndex: 8}
		h, err := holderOf(pair)
		if (err == nil) == h.Free() {
			t.Errorf("%q: %+v, %v", value, h, err)
		}
		if err != nil && backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%q: %v", value, err)
		}
		if s, err := decodeValue(pair); err == nil && (s.ttl < 0 && s.ttl > -time.Hour) {
			t.Errorf("%q: a TTL of %v", value, s.ttl)
		}
	})
}

func TestKindOf_TellsWhetherAnotherTryHelps(t *testing.T) {
	t.Parallel()
	timeout := &url.Error{Op: "Get", URL: "http://x", Err: context.DeadlineExceeded}
	refused := &url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	for _, row := range []struct {
		err  error
		want backend.Kind
	}{
		{api.StatusError{Code: 403, Body: "Permission denied"}, backend.Denied},
		{api.StatusError{Code: 403, Body: "ACL not found"}, backend.Denied},
		{errors.New("Unexpected response code: 403"), backend.Denied},                                                 // Session.Renew
		{errors.New("Failed request: Permission denied: token with AccessorID 'x' lacks permission"), backend.Denied}, // Txn
		{&refusal{api.TxnErrors{{What: "Permission denied"}}}, backend.Denied},
		{api.StatusError{Code: 500, Body: "No cluster leader"}, backend.Unavailable},
		{api.StatusError{Code: 429}, backend.Unavailable},
		{api.StatusError{Code: 500, Body: "Invalid Session TTL '1000000000', must be between [10s=24h0m0s]"}, backend.Misconfigured},
		{api.StatusError{Code: 400, Body: "Bad request"}, backend.Misconfigured},
		{errors.New("Failed request: rpc error making call: No cluster leader"), backend.Unavailable},
		{timeout, backend.Unavailable},
		{refused, backend.Unavailable},
		{io.ErrUnexpectedEOF, backend.Unavailable},
		{errors.New("something else"), backend.Unknown},
	} {
		err := classify(t.Context(), fmt.Errorf("wrapped: %w", row.err))
		if strings.HasPrefix(row.err.Error(), "Unexpected") {
			err = classify(t.Context(), row.err)
		}
		if got := backend.KindOf(err); got != row.want {
			t.Errorf("%v is %v, want %v", row.err, got, row.want)
		}
		if !errors.Is(err, row.err) {
			if _, ok := errors.AsType[api.StatusError](err); !ok {
				t.Errorf("%v: the client's error is gone", row.err)
			}
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err := classify(over, errors.New("Failed to read response: context canceled"))
	if !errors.Is(err, context.Canceled) || backend.KindOf(err) != backend.Unavailable {
		t.Errorf("the end of the context: %v, %v", err, backend.KindOf(err))
	}
}

func TestBackend_Check_ReportsEveryBadOption(t *testing.T) {
	t.Parallel()
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		client *api.Client
		opts   *Options
		want   []string
	}{
		"nothing":   {client, nil, nil},
		"all given": {client, &Options{Prefix: "a/b_c-D/", LockDelay: maxDelay, MaxWatches: 1}, nil},
		"no client": {nil, nil, []string{"the client is nil"}},
		"a path":    {client, &Options{Prefix: "/a"}, []string{"slash"}},
		"two":       {client, &Options{Prefix: "a b", LockDelay: maxDelay + 1}, []string{"character", "LockDelay"}},
		"dots":      {client, &Options{Prefix: "../"}, []string{"character"}},
		"empty":     {client, &Options{Prefix: "a//b"}, []string{"slash"}},
		"long":      {client, &Options{Prefix: strings.Repeat("p", maxPrefix+1)}, []string{"longer"}},
	} {
		b := New(test.client, test.opts)
		err := b.Check()
		if (err != nil) != (len(test.want) > 0) || err != nil && backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range test.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, which does not say %q", name, err, part)
			}
		}
		if err != nil {
			if _, again := b.Inspect(t.Context(), "a"); !errors.Is(again, err) {
				t.Errorf("%s: Inspect: %v, want what Check says", name, again)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAttempts_ForgetWhatIsOver(t *testing.T) {
	t.Parallel()
	s := newAttempts()
	for i := range 3 * maxSpent {
		token := "token-" + strconv.Itoa(i)
		a, err := s.enter(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		broken := &session{ttl: time.Hour}
		s.poison(a, broken, "a")
		s.leave(a)
		if len(s.known) != 1 {
			t.Fatalf("%d attempts are known, want the one with a poisoned session", len(s.known))
		}
		s.settle(a, broken)
		s.spend(token)
		s.spend(token)
		if len(s.known) != 0 || len(s.spent) > maxSpent || !s.isSpent(token) {
			t.Fatalf("%d attempts and %d tokens are known, spent: %t", len(s.known), len(s.spent), s.isSpent(token))
		}
	}
	if s.isSpent("token-0") {
		t.Error("the oldest token is still known")
	}
}

func TestAttempts_LetOneCallInAtATime(t *testing.T) {
	t.Parallel()
	s := newAttempts()
	first, err := s.enter(t.Context(), "token")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.enter(ctx, "token"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second call: %v", err)
	}
	entered := make(chan error, 1)
	go func() {
		second, err := s.enter(t.Context(), "token")
		if err == nil {
			s.leave(second)
		}
		entered <- err
	}()
	s.leave(first)
	if err := <-entered; err != nil {
		t.Error(err)
	}
	if s.change(first, func() {}); len(s.known) != 0 {
		t.Errorf("%d attempts are known", len(s.known))
	}
}

func TestPool_KeepsAtMost64SessionsForAMinute(t *testing.T) {
	t.Parallel()
	server := testserver.Consul(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	client, err := api.NewClient(&api.Config{Address: server.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	b := New(client, nil)
	defer func() { _ = b.Close() }()
	alive := func() int {
		t.Helper()
		list, _, err := client.Session().List(nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	await := func(what string, cond func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("still not so: ", what)
			}
		}
	}
	for range maxIdle + 5 {
		s, err := b.createSession(t.Context(), minTTL, b.lockDelay(minTTL))
		if err != nil {
			t.Fatal(err)
		}
		b.pool.put(t.Context(), s)
	}
	await("what does not fit is destroyed", func() bool { return alive() == maxIdle })
	b.pool.mu.Lock()
	for i := range b.pool.idle {
		b.pool.idle[i].since = time.Now().Add(-idleTime)
	}
	b.pool.mu.Unlock()
	b.pool.dismiss() // as the timer does
	await("what is old is destroyed", func() bool { return alive() == 0 })
	if b.pool.sweep != nil {
		t.Error("the timer goes on, and nothing is idle")
	}
}

func TestSession_IsFreshByTheClockThatHasGoneOnMore(t *testing.T) {
	t.Parallel()
	s := &session{ttl: minTTL, renewed: time.Now()}
	if !s.fresh() {
		t.Error("not fresh when it was just renewed")
	}
	for { // again if this process was held up for so long that the monotonic clock alone says so
		s.renewed = beforeSleep(time.Now(), 2*reuse)
		fresh := s.fresh()
		if time.Since(s.renewed) > reuse {
			continue
		}
		if fresh {
			t.Error("fresh after a sleep that the monotonic clock has missed")
		}
		return
	}
}

// beforeSleep returns an instant before a sleep of the machine that lasted until now, and that the monotonic clock has
// missed. There is no other way to make such a time.
func beforeSleep(now time.Time, sleep time.Duration) time.Time {
	before := now.Add(-sleep)
	monotonic := &(*struct { // the layout of a time.Time
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&before)).ext
	*monotonic += int64(sleep)
	return before
}

func TestDelays_EndOneLockDelayAfterTheFirstRefusal(t *testing.T) {
	t.Parallel()
	d := newDelays()
	h := d.holder("a", minTTL)
	if h.Remaining != minTTL || h.Seen != seenDelayed || h.Free() {
		t.Errorf("at first %+v", h)
	}
	d.since["a"] = d.since["a"].Add(-minTTL / 2)
	if h := d.holder("a", minTTL); h.Remaining > minTTL/2 || h.Remaining < minTTL/4 {
		t.Errorf("then %+v", h)
	}
	d.since["a"] = d.since["a"].Add(-minTTL)
	if h := d.holder("a", minTTL); h.Remaining != 0 {
		t.Errorf("after it %+v", h)
	}
	d.over("a")
	if h := d.holder("a", minTTL); h.Remaining != minTTL {
		t.Errorf("the next time %+v", h)
	}
	for i := range 10 * maxDelays {
		d.since["a"] = time.Now().Add(-2 * maxDelay)
		key := strconv.Itoa(i)
		d.holder(key, minTTL)
		d.since[key] = time.Now().Add(-2 * maxDelay)
	}
	if len(d.since) > maxDelays+1 {
		t.Errorf("%d keys are remembered", len(d.since))
	}
}

func TestFeeds_EndWhenNobodyHasAskedForAWhile(t *testing.T) {
	t.Parallel()
	client, err := api.NewClient(&api.Config{Address: testserver.Consul(t).Addr()})
	if err != nil {
		t.Fatal(err)
	}
	b := New(client, nil)
	defer func() { _ = b.Close() }()
	free := func() (feeds, slots int) {
		b.feeds.mu.Lock()
		defer b.feeds.mu.Unlock()
		return len(b.feeds.feeds), b.feeds.slots
	}
	const keys, waiters = 10, 100
	for i := range waiters {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		err := b.AwaitRelease(ctx, fmt.Sprintf("free-%d", i%keys), "999999999999")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("AwaitRelease: %v", err)
		}
	}
	if feeds, _ := free(); feeds > keys {
		t.Errorf("%d feeds of %d keys", feeds, keys)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if feeds, slots := free(); feeds == 0 && slots == defaultWatches {
			return
		}
		if time.Now().After(end) {
			t.Fatal("feeds are left")
		}
	}
}
