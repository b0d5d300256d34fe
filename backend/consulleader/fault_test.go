package consulleader_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
)

// brief is longer than a request takes, and much shorter than a lease.
const brief = 300 * time.Millisecond

// noDelay lets tests acquire again what was ended from outside.
var noDelay = &consulleader.Options{LockDelay: -1}

// pair returns what is stored for a key of the engine, under the default prefix.
func pair(t testing.TB, client *api.Client, key string) *api.KVPair {
	t.Helper()
	p, _, err := client.KV().Get(consulleader.StoreKey("", key), &api.QueryOptions{RequireConsistent: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sessions returns the ids of all sessions.
func sessions(t testing.TB, client *api.Client) []string {
	t.Helper()
	list, _, err := client.Session().List(&api.QueryOptions{RequireConsistent: true})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

func destroy(t testing.TB, client *api.Client, id string) {
	t.Helper()
	if _, err := client.Session().Destroy(id, nil); err != nil {
		t.Fatal(err)
	}
}

// unanswered makes a call whose context ends before its answer.
func unanswered(t testing.TB, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want an error that wraps the context's", err)
	}
}

func acquiring(b backend.Driver, req backend.Request) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := b.TryAcquire(ctx, req)
		return err
	}
}

func TestBackend_Abandon_StopsAnAttemptThatArrivesLater(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, nil)
	fault, deliver := f.hold(t) //nolint:bodyclose // It sends nothing yet.
	f.once(fault, "/v1/txn", `"lock"`)
	req := request("a", long)
	unanswered(t, acquiring(b, req))
	if err := b.Abandon(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if answer := deliver(); !strings.Contains(answer, "invalid session") {
		t.Errorf("the late attempt was answered %s", answer)
	}
	if h := inspect(t, b, "a"); !h.Free() {
		t.Errorf("the late attempt opened a term: %+v", h)
	}
	lost(t, "a repeat", acquiring(b, req)(t.Context()))
	win(t, open(t, connect(t, server), nil), request("a", long))
}

func TestBackend_TryAcquire_TakesAnewWhatALostAnswerLeft(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b, f := through(t, server, nil)
	f.once(f.swallow, "/v1/txn", `"lock"`)
	req := request("a", long)
	unanswered(t, acquiring(b, req))
	f.set(nil)
	lease := win(t, b, req)
	p := pair(t, client, "a")
	if p == nil || p.CreateIndex != lease.Fence() {
		t.Fatalf("stored %+v, fence %d", p, lease.Fence())
	}
	eventually(t, "the session of the lost answer is destroyed", func() bool { return len(sessions(t, client)) == 1 })
	renew(t, lease)
	if ids := sessions(t, client); !slices.Equal(ids, []string{p.Session}) {
		t.Errorf("sessions %v, want that of the lease, %s", ids, p.Session)
	}
	release(t, lease, 0)
	if p := pair(t, client, "a"); p != nil {
		t.Errorf("left %+v", p)
	}
}

func TestBackend_APoisonedSessionIsDestroyedAndNeverUsedAgain(t *testing.T) {
	server := ownServer(t)
	client := connect(t, server)
	for name, parts := range map[string][]string{
		"acquire": {"/v1/txn", `"lock"`},
		"renew":   {"/v1/session/renew/"},
		"release": {"DELETE ", "cas="},
	} {
		t.Run(name, func(t *testing.T) {
			b, f := through(t, server, noDelay)
			req := request("a", long)
			var lease backend.Lease
			if name != "acquire" {
				lease = win(t, b, req)
			}
			f.once(f.swallow, parts...)
			var broken string
			switch name {
			case "acquire":
				unanswered(t, acquiring(b, req))
				broken = sessionIn(f, `"lock"`)
				if err := b.Abandon(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			case "renew":
				broken = sessionIn(f, `"lock"`)
				unanswered(t, func(ctx context.Context) error { return lease.Renew(ctx, long) })
				renew(t, lease) // A failed renewal is no loss.
				release(t, lease, 0)
			case "release":
				broken = sessionIn(f, `"lock"`)
				unanswered(t, func(ctx context.Context) error { return lease.Release(ctx, 0) })
				release(t, lease, 0)
			}
			eventually(t, "the session is destroyed", func() bool { return !slices.Contains(sessions(t, client), broken) })
			locks, renewals := f.count(`"lock"`, broken), f.count("renew/"+broken)
			next := win(t, b, request("a", long))
			renew(t, next)
			release(t, next, 0)
			if f.count(`"lock"`, broken) != locks || f.count("renew/"+broken) != renewals {
				t.Error("the session was used again")
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if left := sessions(t, client); len(left) > 0 {
				t.Errorf("sessions %v are left", left)
			}
		})
	}
}

// sessionIn returns the session in the last request with a mark.
func sessionIn(f *faulty, mark string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	const field = `"Session":"`
	for _, line := range slices.Backward(f.noted) {
		if i := strings.LastIndex(line, field); i >= 0 && strings.Contains(line, mark) {
			id, _, _ := strings.Cut(line[i+len(field):], `"`)
			return id
		}
	}
	return ""
}

func TestBackend_ASessionWhoseCreatorHasGoneIsKeptForTheNext(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b, f := through(t, server, nil)
	reached, goOn := make(chan struct{}), make(chan struct{})
	f.once(func(*http.Request) (*http.Response, error) {
		close(reached)
		<-goOn
		return nil, errPass
	}, "/v1/session/create")
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- acquiring(b, request("a", long))(ctx) }()
	<-reached
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Fatalf("TryAcquire: %v", err)
	}
	close(goOn)
	eventually(t, "the session is there", func() bool { return len(sessions(t, client)) == 1 })
	eventually(t, "the session is used", func() bool {
		release(t, win(t, b, request("a", long)), 0)
		return f.count("/v1/session/create") <= 2
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left := sessions(t, client); len(left) > 0 {
		t.Errorf("sessions %v are left", left)
	}
}

func TestBackend_AnIdleSessionThatDiedIsReplacedWithoutNotice(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	for range 3 {
		release(t, win(t, b, request("a", long)), 0)
		for _, id := range sessions(t, client) {
			destroy(t, client, id)
		}
		lease := win(t, b, request("a", long)) // at once, so that the idle session counts as renewed
		if p := pair(t, client, "a"); p == nil || !slices.Contains(sessions(t, client), p.Session) {
			t.Errorf("the lease is of %+v, a session that does not live", p)
		}
		renew(t, lease)
		release(t, lease, 0)
	}
}

func TestBackend_SessionsAreReusedAndRenewedOnlyWhenTheyAreOlder(t *testing.T) {
	t.Parallel()
	b, f := through(t, ownServer(t), nil)
	const runs = 50
	for range runs {
		release(t, win(t, b, request("a", long)), 0)
	}
	if n := f.count("/v1/session/create"); n != 1 {
		t.Errorf("%d sessions were made", n)
	}
	if n := f.count("/v1/session/renew"); n > runs/2 {
		t.Errorf("%d renewals in %d runs", n, runs)
	}
	if n := f.count("/v1/txn"); n != runs {
		t.Errorf("%d transactions in %d runs", n, runs)
	}
	<-time.After(consulleader.Reuse)
	renewals := f.count("/v1/session/renew")
	release(t, win(t, b, request("a", long)), 0)
	if f.count("/v1/session/renew") != renewals+1 {
		t.Error("a session that was idle for longer was not renewed")
	}
}

func TestBackend_TryAcquire_OfAHeldKeyCostsOneReadAndNoLogEntry(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	win(t, open(t, connect(t, server), nil), request("a", long))
	b, f := through(t, server, nil)
	const attempts = 20
	for range attempts {
		if h := holder(t, b, "a"); h.Owner != "node-1" {
			t.Errorf("holder %+v", h)
		}
	}
	if reads, all := f.count("GET /v1/kv/leader/a"), f.count(""); reads != attempts || all != attempts {
		t.Errorf("%d reads and %d requests in %d attempts", reads, all, attempts)
	}
}

// logEntries is how many entries the server's log has.
func logEntries(t testing.TB, client *api.Client) int {
	t.Helper()
	self, err := client.Agent().Self()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := self["Stats"]["raft"].(map[string]any)["last_log_index"].(string)
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBackend_RenewalsAndAttemptsAtWhatIsHeldCostNoLogEntries(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	for range 2 {
		if _, _, err := b.TryAcquireSlot(t.Context(), request("g", long), 2); err != nil {
			t.Fatal(err)
		}
	}
	other, f := through(t, server, nil)
	before := logEntries(t, client)
	const rounds = 100
	for range rounds {
		renew(t, lease)
		holder(t, other, "a")
		if _, _, err := other.TryAcquireSlot(t.Context(), request("g", long), 2); !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
	}
	if wrote := f.count("PUT "); wrote > 0 {
		t.Errorf("%d writes", wrote)
	}
	// The server writes some of its own.
	if more := logEntries(t, client) - before; more > rounds/2 {
		t.Errorf("%d log entries in %d rounds", more, rounds)
	}
}

// A create that is delivered late, where nothing else is, stays for one lease.
func TestBackend_AnOrphanThatCannotBeEndedLastsOneLease(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	b, f := through(t, server, noDelay)
	other := open(t, connect(t, server), noDelay)
	fault, deliver := f.hold(t) //nolint:bodyclose // It sends nothing yet.
	f.set(func(r *http.Request, body string) (*http.Response, error) {
		switch {
		case strings.Contains(body, `"lock"`):
			f.set(func(*http.Request, string) (*http.Response, error) { return nil, errors.New("no route to host") })
			return fault(r)
		default:
			return nil, errPass
		}
	})
	req := request("a", ttl)
	sent := time.Now()
	unanswered(t, acquiring(b, req))
	kind(t, "Abandon", b.Abandon(t.Context(), req), backend.Unavailable)
	if answer := deliver(); !strings.HasPrefix(answer, "200") {
		t.Fatalf("the late attempt was answered %s", answer)
	}
	if h := inspect(t, other, "a"); h.Owner != req.Owner {
		t.Errorf("holder %+v", h)
	}
	eventually(t, "the orphan has ended", func() bool { return inspect(t, other, "a").Free() })
	if took := time.Since(sent); took > 5*ttl/2 {
		t.Errorf("it took %v", took)
	}
	if n := f.count("/v1/session/renew"); n > 0 {
		t.Errorf("the session was renewed %d times", n)
	}
}
