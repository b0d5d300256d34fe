package consulleader_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
)

var errCut = errors.New("cut")

// cutOff does a fault with the first request that locks a key, and lets nothing end the session that it was for.
func (f *faulty) cutOff(fault func(r *http.Request) (*http.Response, error)) {
	f.once(fault, "/v1/txn", `"lock"`)
	f.mu.Lock()
	first := f.fault
	f.mu.Unlock()
	f.set(func(r *http.Request, body string) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/v1/session/destroy/") || strings.Contains(body, `"check-session"`) {
			return nil, errCut
		}
		return first(r, body)
	})
}

// mend undoes cutOff once the backend has failed to end the session.
func (f *faulty) mend(t testing.TB) {
	t.Helper()
	eventually(t, "the session is to be ended", func() bool { return f.count(`"check-session"`) > 0 })
	f.set(nil)
}

// answer is what a server says, in place of the real one.
func answer(status int, text string) func(r *http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: body(text), Request: r}, nil
	}
}

func acquiringSlot(b *consulleader.Backend, req backend.Request, n int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, _, err := b.TryAcquireSlot(ctx, req, n)
		return err
	}
}

func TestBackend_TryAcquireSlot_EndsTheAttemptBeforeSoThatATokenHasOneSlot(t *testing.T) {
	t.Parallel()
	const n = 20
	b, f := through(t, ownServer(t), nil)
	fault, deliver := f.hold(t) //nolint:bodyclose // It sends nothing yet.
	f.cutOff(fault)
	req := request("group", long)
	unanswered(t, acquiringSlot(b, req, n))
	f.mend(t)
	if err := acquiringSlot(b, req, n)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := deliver(); !strings.Contains(got, "invalid session") {
		t.Errorf("the late attempt was answered %s", got)
	}
	if got := held(t, b, "group#"); len(got) != 1 {
		t.Errorf("the token has the slots %q", got)
	}
}

func TestBackend_Abandon_OfSlotsDelaysNobody(t *testing.T) {
	t.Parallel()
	const n = 8
	server := ownServer(t)
	b, f := through(t, server, nil)
	f.cutOff(f.swallow)
	req := request("group", long)
	unanswered(t, acquiringSlot(b, req, n))
	f.mend(t)
	for slot := range n {
		one := req
		one.Key = backend.SlotKey("group", slot)
		if err := b.Abandon(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, connect(t, server), nil)
	for range n {
		if err := acquiringSlot(other, request("group", long), n)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func held(t testing.TB, b *consulleader.Backend, prefix string) (keys []string) {
	t.Helper()
	for e, err := range b.List(t.Context(), prefix, true) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

func TestLease_Renew_IsLostOnlyWhenTheKeyIsGone(t *testing.T) {
	t.Parallel()
	b, f := through(t, ownServer(t), nil)
	lease := win(t, b, request("a", long))
	// As from a server that leads and has not read all of its log yet.
	unknown := answer(http.StatusNotFound, "Session id not found") //nolint:bodyclose // The client closes it.
	f.once(unknown, "/v1/session/renew/")
	kind(t, "Renew", lease.Renew(t.Context(), long), backend.Unavailable)
	renew(t, lease)
	release(t, lease, 0)
	if !inspect(t, b, "a").Free() {
		t.Error("the release did not end the lease")
	}
}

func TestLease_Renew_EndsTheSessionOfALostLease(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	if err := b.Break(t.Context(), "a", lease.Fence()); err != nil {
		t.Fatal(err)
	}
	lost(t, "Renew", lease.Renew(t.Context(), long))
	eventually(t, "its session is destroyed", func() bool { return len(sessions(t, client)) == 0 })
}

func TestLease_Release_WithKeepIsDenied(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b, f := through(t, server, nil)
	lease := win(t, b, request("a", long))
	const refusal = `{"Errors":[{"OpIndex":0,"What":"Permission denied"}]}`
	denied := answer(http.StatusConflict, refusal) //nolint:bodyclose // The client closes it.
	f.once(denied, "/v1/txn", `"unlock"`)
	kind(t, "Release", lease.Release(t.Context(), ttl), backend.Denied)
	eventually(t, "the session to keep it is destroyed", func() bool { return len(sessions(t, client)) == 1 })
}

func TestLease_Release_WithKeepWhoseAnswerIsLostSpendsTheSession(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b, f := through(t, server, nil)
	lease := win(t, b, request("a", long))
	f.once(f.swallow, "/v1/txn", `"unlock"`)
	unanswered(t, func(ctx context.Context) error { return lease.Release(ctx, long) })
	f.set(nil)
	release(t, lease, long)
	keeper := pair(t, client, "a").Session
	eventually(t, "no other session is left", func() bool {
		left := sessions(t, client)
		return len(left) == 1 && left[0] == keeper
	})
}

func TestLease_Release_WithKeepWhoseAnswerIsLostIsSetAnew(t *testing.T) {
	t.Parallel()
	b, f := through(t, ownServer(t), nil)
	lease := win(t, b, request("a", long))
	f.once(f.swallow, "/v1/txn", `"unlock"`)
	unanswered(t, func(ctx context.Context) error { return lease.Release(ctx, long) })
	f.set(nil)
	release(t, lease, ttl) // anew, and shorter
	if h := inspect(t, b, "a"); !h.Kept {
		t.Errorf("holder %+v", h)
	}
	eventually(t, "the key is free", func() bool { return inspect(t, b, "a").Free() })
}
