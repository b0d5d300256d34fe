package consulleader_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
)

func elector(t testing.TB, b backend.Driver, node string) *leader.Single {
	t.Helper()
	e, err := leader.New(b, leader.WithNodeID(node), leader.WithLeaseTime(ttl),
		leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// leased is the lease under which an action runs.
func leased(t testing.TB, ctx context.Context) *leader.Lease {
	t.Helper()
	l, ok := leader.LeaseFrom(ctx)
	if !ok {
		t.Error("the action has no lease")
	}
	return l
}

// term is a time of leading.
type term struct {
	node  string
	fence uint64
	began time.Time
	over  <-chan struct{}
	cause func() error
}

// campaign runs for the name until the test ends, and tells of its terms.
func campaign(t testing.TB, e *leader.Single, node string, terms chan<- term) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Campaign(ctx, "job", func(ctx context.Context) error {
			terms <- term{node, leased(t, ctx).Info().Fence, time.Now(), ctx.Done(), func() error { return context.Cause(ctx) }}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestElector_ADestroyedSessionIsLostAtOnceAndLedAgainWithinTheLease(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	terms := make(chan term, 10)
	campaign(t, elector(t, open(t, client, nil), "first"), "first", terms)
	first := <-terms
	campaign(t, elector(t, open(t, connect(t, server), nil), "second"), "second", terms)
	<-time.After(time.Second) // longer than it takes to watch for the loss
	for range 2 {
		destroyed := time.Now()
		destroy(t, client, pair(t, client, "job").Session)
		select {
		case <-first.over:
		case <-time.After(patience):
			t.Fatal("the leader has not noticed")
		}
		if took := time.Since(destroyed); took > 2*time.Second {
			t.Errorf("noticed after %v, want at once: the next renewal is due after about 3s", took)
		}
		if cause := first.cause(); !errors.Is(cause, leader.ErrLeaseLost) {
			t.Errorf("the cause is %v", cause)
		}
		var next term
		select {
		case next = <-terms:
		case <-time.After(patience):
			t.Fatal("nobody leads again")
		}
		// The lock-delay is the lease time; what comes on top is the retry.
		if took := next.began.Sub(destroyed); took > ttl+3*time.Second {
			t.Errorf("led again after %v", took)
		}
		if next.fence <= first.fence {
			t.Errorf("fence %d after %d", next.fence, first.fence)
		}
		first = next
		<-time.After(time.Second)
	}
}

func TestElector_AWaiterWhoseOwnSessionDiedNeverLeadsWithoutOne(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, connect(t, server), nil)
	waiting := elector(t, b, "waiting")
	for range 5 {
		holder := win(t, open(t, client, nil), request("job", ttl))
		// So that the waiter has a session of its own.
		if _, err := waiting.RunIfLeader(t.Context(), "other", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		led := make(chan error, 1)
		go func() {
			_, err := waiting.RunIfLeader(t.Context(), "job", func(ctx context.Context) error {
				l := leased(t, ctx)
				p := pair(t, client, "job")
				if p == nil || p.CreateIndex != l.Info().Fence || !slices.Contains(sessions(t, client), p.Session) {
					t.Errorf("leads by fence %d, and the store has %+v", l.Info().Fence, p)
				}
				return nil
			}, leader.WithWaitTime(patience))
			led <- err
		}()
		own := pair(t, client, "job").Session
		for range 20 {
			for _, id := range sessions(t, client) {
				if id != own {
					destroy(t, client, id)
				}
			}
			<-time.After(5 * time.Millisecond)
		}
		if h := inspect(t, b, "job"); h.Owner != "node-1" {
			t.Errorf("holder %+v while the first still holds", h)
		}
		release(t, holder, 0)
		if err := result(t, "the waiter leads", led); err != nil {
			t.Error(err)
		}
	}
}

func TestElector_GivingUpAThousandTimesLeavesNoKeyAndNoSession(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, connect(t, server), nil)
	e := elector(t, b, "hasty")
	holder := win(t, open(t, client, nil), request("held", long))
	for i := range 1000 {
		name := "held"
		if i%2 == 0 {
			name = "free"
		}
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Duration(rand.N(3000))*time.Microsecond, cancel)
		_, _ = e.RunIfLeader(ctx, name, func(context.Context) error { return nil },
			leader.WithWaitTime(time.Minute))
		stop.Stop()
		cancel()
	}
	eventually(t, "only the holder's key is left", func() bool {
		keys, _, err := client.KV().Keys("leader/", "", nil)
		return err == nil && slices.Equal(keys, []string{"leader/held"})
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "only the holder's session is left", func() bool {
		return slices.Equal(sessions(t, client), []string{pair(t, client, "held").Session})
	})
	renew(t, holder)
}

func TestElector_ForeignKeysBesideOursChangeNothing(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	foreign := map[string]string{
		"leader/": "a folder", "leader/job/": "", "leader/job/child": "x", "leader/job%": "x", "leader/job%zz": "x",
		"leader/Job": "x", "leader/jo": "x", "leader/job#": "x", "leader/job#x": "x", "leader/job#007": "x",
		"leader/.records/": "", "leader/.records/job": "x", "leader": "x", "leaderjob": "x", "leader/other": `{"format":1}`,
	}
	for key, value := range foreign {
		if _, err := client.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	alien, _, err := client.Session().CreateNoChecks(&api.SessionEntry{TTL: "1h"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	locked := &api.KVPair{Key: "leader/job2", Value: []byte("x"), Session: alien}
	if ok, _, err := client.KV().Acquire(locked, nil); err != nil || !ok {
		t.Fatal(ok, err)
	}

	b := open(t, client, nil)
	for range 20 {
		release(t, win(t, b, request("job", long)), 0)
	}
	first := win(t, b, request("job", long))
	for i := range 2 {
		if _, slot, err := b.TryAcquireSlot(t.Context(), request("job", long), 2); err != nil {
			t.Errorf("slot %d of 2: %d, %v", i, slot, err)
		}
	}
	var listed []string
	for e, err := range b.List(t.Context(), "", true) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, e.Key)
	}
	slices.Sort(listed)
	if !slices.Equal(listed, []string{"job", "job#0", "job#1"}) {
		t.Errorf("listed %q", listed)
	}
	if list, _, err := b.GetRecords(t.Context(), "job!k/"); err != nil || len(list) > 0 {
		t.Errorf("records %v, %v", list, err)
	}
	if _, err := b.TryAcquire(t.Context(), request("job2", long)); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("a key that another application locked: %v", err)
	}
	renew(t, first)
	for key, value := range foreign {
		p, _, err := client.KV().Get(strings.TrimPrefix(key, "/"), nil)
		if err != nil || p == nil || !bytes.Equal(p.Value, []byte(value)) {
			t.Errorf("%q became %+v, %v", key, p, err)
		}
	}
}

func TestElector_TheDocumentedUseWorks(t *testing.T) {
	t.Parallel()
	b := consulleader.New(connect(t, ownServer(t)), nil)
	defer func() { _ = b.Close() }()
	e, err := leader.New(b)
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	if _, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error {
		ran = true
		return nil
	}); err != nil || !ran {
		t.Errorf("ran %t, %v", ran, err)
	}
}
