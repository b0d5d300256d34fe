package dynamoleader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/dynamoleader"
)

func number(t testing.TB, item map[string]types.AttributeValue, name string) int64 {
	t.Helper()
	v, ok := item[name].(*types.AttributeValueMemberN)
	if !ok {
		t.Fatalf("attribute %q is %T", name, item[name])
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBackend_Item_IsAsDocumented(t *testing.T) {
	s := newTable(t)
	b := s.open(t)
	req := request("nightly", long)
	req.Metadata = map[string]string{"zone": "a", "quote": `"{`, "": "none"}
	lease := win(t, b, req)
	renew(t, lease, long)
	item := s.stored(t, "nightly", "lease")
	for name, want := range map[string]string{"key": "nightly", "token": req.Token, "owner": "node-1"} {
		if got, ok := item[name].(*types.AttributeValueMemberS); !ok || got.Value != want {
			t.Errorf("%s is %+v, want %q", name, item[name], want)
		}
	}
	for name, want := range map[string]int64{"format": 1, "fence": int64(lease.Fence()), "lease": long.Milliseconds()} {
		if got := number(t, item, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for _, name := range []string{"since", "renewed"} {
		if off := time.Since(time.UnixMilli(number(t, item, name))); off.Abs() > patience {
			t.Errorf("%s is %v ago", name, off)
		}
	}
	if h := inspect(t, s.open(t), "nightly"); !maps.Equal(h.Metadata, req.Metadata) || h.Owner != "node-1" {
		t.Errorf("holder %+v", h)
	}
	release(t, lease, 0)
	item = s.stored(t, "nightly", "lease")
	if _, has := item["token"]; has || number(t, item, "lease") != 0 {
		t.Errorf("a released item is %v", item)
	}

	win(t, b, request("nightly#3", long))
	if item := s.stored(t, "nightly", "lease#3"); len(item) == 0 {
		t.Error("a slot is not beside the lease of its name")
	}
	if _, err := b.PutRecord(t.Context(), backend.Record{Key: "nightly!candidate/web-1", Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if item := s.stored(t, "nightly", "record!candidate/web-1"); len(item) == 0 {
		t.Error("a record is not beside the lease of its name")
	}
}

// Epoch seconds: as milliseconds they would be in the year 58,000, and nothing would ever be deleted.
func TestBackend_TTLAttribute_IsInSecondsAWeekAfterTheEnd(t *testing.T) {
	s := newTable(t)
	b := s.open(t)
	const ttl = 3 * time.Hour
	in := func(part string) time.Duration {
		t.Helper()
		return time.Until(time.Unix(number(t, s.stored(t, "a", part), "expires"), 0)) - 7*24*time.Hour
	}
	lease := win(t, b, request("a", ttl))
	if got := in("lease"); got < ttl-patience || got > ttl+patience {
		t.Errorf("an item expires %v after a week, want %v", got, ttl)
	}
	renew(t, lease, 2*ttl)
	if got := in("lease"); got < 2*ttl-patience || got > 2*ttl+patience {
		t.Errorf("a renewed item expires %v after a week, want %v", got, 2*ttl)
	}
	record := backend.Record{Key: "a!b/c", TTL: ttl}
	version, err := b.PutRecord(t.Context(), record)
	if err != nil {
		t.Fatal(err)
	}
	if got := in("record!b/c"); got < ttl-patience || got > ttl+patience {
		t.Errorf("a record expires %v after a week, want %v", got, ttl)
	}
	record.Version, record.TTL = version, 0
	if _, err := b.PutRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if item := s.stored(t, "a", "record!b/c"); item["expires"] != nil {
		t.Errorf("a record without an end expires at %v", item["expires"])
	}
}

func TestBackend_TTLAttribute_DecidesNothing(t *testing.T) {
	s := newTable(t)
	a, b := s.open(t), s.open(t)
	at := func(d time.Duration) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Add(d).Unix(), 10)}
	}
	lease := win(t, a, request("past", long))
	s.set(t, "past", "lease", "expires", at(-365*24*time.Hour))
	if h := holder(t, b, "past"); h.Fence != lease.Fence() {
		t.Errorf("holder %+v", h)
	}
	renew(t, lease, long)
	win(t, a, request("future", brief))
	s.set(t, "future", "lease", "expires", at(365*24*time.Hour))
	takeOver(t, b, "future", long)
}

// What DynamoDB's own TTL deletes is deleted for the holder too.
func TestBackend_ALeaderWhoseItemIsDeletedLosesInTime(t *testing.T) {
	const ttl = 2 * time.Second
	s := newTable(t)
	b := s.open(t)
	e, err := leader.New(b, leader.WithLeaseTime(ttl), leader.WithWaitTime(patience), leader.WithLogger(quiet()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(ttl) // so that the next item's fence begins at another second
	s.remove(t, "job", "lease")
	select {
	case <-l.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lease is still trusted")
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, leader.ErrLeaseLost) {
		t.Errorf("the cause is %v", cause)
	}
	if next := win(t, b, request("job", long)); next.Fence() <= l.Info().Fence {
		t.Errorf("fence %d after %d", next.Fence(), l.Info().Fence)
	}
}

func TestBackend_StrangersTouch_IsNeitherLifeNorDeath(t *testing.T) {
	s := newTable(t)
	a, b := s.open(t), s.open(t)
	const ttl = time.Second
	lease := win(t, a, request("a", ttl))
	sent := time.Now()
	holder(t, b, "a")
	touch := func() {
		s.set(t, "a", "lease", "of", &types.AttributeValueMemberS{Value: time.Now().String()})
	}
	touch()
	renew(t, lease, ttl)
	seen := time.Now()
	eventually(t, "it can be taken over", func() bool {
		touch()
		_, err := b.TryAcquire(t.Context(), request("a", long))
		return err == nil
	})
	if took := time.Since(seen); took > ttl+5*time.Second {
		t.Errorf("taken over after %v", took)
	}
	if took := time.Since(sent); took < ttl {
		t.Errorf("taken over after %v", took)
	}
	if item := s.stored(t, "a", "lease"); item["of"] == nil {
		t.Error("the stranger's attribute is gone")
	}
}

func TestBackend_TryAcquire_WritesNothingWhenItLoses(t *testing.T) {
	s := newTable(t)
	win(t, s.open(t), request("a", long))
	before := s.stored(t, "a", "lease")
	for _, b := range []backend.Driver{s.open(t), s.openWith(t, telling(t))} {
		for range 20 {
			if h := holder(t, b, "a"); h.Owner != "node-1" || h.Seen == "" || h.Remaining <= 0 || h.Remaining > long {
				t.Fatalf("holder %+v", h)
			}
		}
	}
	if after := s.stored(t, "a", "lease"); !reflect.DeepEqual(before, after) {
		t.Errorf("a losing attempt changed the item from %v to %v", before, after)
	}
}

func TestBackend_Calls_CostWhatTheirCommentsSay(t *testing.T) {
	s := newTable(t)
	var asks, tells counter
	silent := s.openWith(t, over(asks.count))
	told := s.openWith(t, func(o *dynamodb.Options) {
		telling(t)(o)
		over(tells.count)(o)
	})
	other := s.open(t)
	cost := func(what string, c *counter, requests, writes int64, f func()) {
		t.Helper()
		r, w := c.requests.Load(), c.writes.Load()
		f()
		if r, w = c.requests.Load()-r, c.writes.Load()-w; r != requests || w != writes {
			t.Errorf("%s: %d requests, %d of them writes, want %d and %d", what, r, w, requests, writes)
		}
	}
	var lease backend.Lease
	cost("the first attempt", &asks, 2, 1, func() { lease = win(t, silent, request("a", long)) })
	cost("a renewal", &asks, 1, 1, func() { renew(t, lease, long) })
	cost("a release", &asks, 1, 1, func() { release(t, lease, 0) })
	cost("the next attempt", &asks, 1, 1, func() { lease = win(t, silent, request("a", long)) })
	cost("a release that keeps", &asks, 1, 1, func() { release(t, lease, brief) })
	cost("a new key", &asks, 1, 1, func() { win(t, silent, request("b", long)) })
	cost("a look", &asks, 1, 0, func() { inspect(t, silent, "b") })
	win(t, other, request("held", long))
	inspect(t, told, "held")
	cost("a losing attempt where the endpoint tells no item", &asks, 2, 1, func() { holder(t, silent, "held") })
	cost("a losing attempt", &tells, 1, 1, func() { holder(t, told, "held") })
	cost("an abandoned attempt", &asks, 1, 1, func() {
		if err := silent.Abandon(t.Context(), request("c", long)); err != nil {
			t.Error(err)
		}
	})
	cost("a slot", &asks, 2, 1, func() {
		if _, _, err := silent.TryAcquireSlot(t.Context(), request("g", long), 1); err != nil {
			t.Error(err)
		}
	})
	cost("a full group", &asks, 1, 0, func() {
		if _, _, err := silent.TryAcquireSlot(t.Context(), request("g", long), 1); !errors.Is(err, backend.ErrHeld) {
			t.Error(err)
		}
	})
	cost("a break", &asks, 2, 1, func() {
		if err := silent.Break(t.Context(), "held", inspect(t, other, "held").Fence); err != nil {
			t.Error(err)
		}
	})
	dynamoleader.Idle(silent, time.Hour)
	cost("an attempt after an hour", &asks, 2, 1, func() { win(t, silent, request("d", long)) })
	win(t, other, request("dead", brief))
	inspect(t, silent, "dead")
	time.Sleep(brief + 50*time.Millisecond)
	cost("a take-over", &asks, 1, 1, func() { lease = win(t, silent, request("dead", brief)) })
	release(t, lease, 0)
	time.Sleep(brief)
	cost("an attempt a lease after the release", &asks, 1, 1, func() { win(t, silent, request("dead", brief)) })
}

// Somebody else renews before each of our take-overs.
func TestBackend_Conflict_IsRetriedAtOnceThreeTimesAtMost(t *testing.T) {
	s := newTable(t)
	for _, test := range []struct {
		conflicts, writes int
		held              bool
	}{{0, 1, false}, {1, 2, false}, {3, 4, false}, {4, 4, true}, {100, 4, true}} {
		key := strconv.Itoa(test.conflicts)
		var c counter
		var w switched
		b := s.openWith(t, func(o *dynamodb.Options) {
			over(c.count)(o)
			over(w.wrap)(o)
		})
		release(t, win(t, b, request(key, long)), 0)
		left := test.conflicts
		w.set(func(request *http.Request) (*http.Response, error) {
			// The refusal of an attempt on a key that is free again when it is looked at.
			if operation(request) != "UpdateItem" || left == 0 {
				return nil, nil
			}
			left--
			return refusal(request, http.StatusBadRequest, "ConditionalCheckFailedException"), nil
		})
		before := c.requests.Load()
		_, err := b.TryAcquire(t.Context(), request(key, long))
		if errors.Is(err, backend.ErrHeld) != test.held || err != nil && !test.held {
			t.Errorf("%d conflicts: %v", test.conflicts, err)
		}
		if n := int(c.requests.Load() - before); n > 2*test.writes {
			t.Errorf("%d conflicts: %d requests, want %d writes and the looks between", test.conflicts, n, test.writes)
		}
		if refused := test.conflicts - left; refused > 4 {
			t.Errorf("%d conflicts: %d writes, want 4 at most", test.conflicts, refused)
		}
	}
}

func TestBackend_ManyClientsCreateAnItemAtOnce(t *testing.T) {
	s := newTable(t)
	const clients, rounds = 8, 20
	backends := make([]*dynamoleader.Backend, clients)
	for i := range backends {
		backends[i] = s.open(t)
	}
	for round := range rounds {
		key := fmt.Sprintf("job-%d", round)
		var together sync.WaitGroup
		wins := make(chan backend.Lease, clients)
		for _, b := range backends {
			together.Go(func() {
				lease, err := b.TryAcquire(t.Context(), request(key, long))
				switch {
				case err == nil:
					wins <- lease
				case !errors.Is(err, backend.ErrHeld):
					t.Errorf("TryAcquire: %v, want success or ErrHeld", err)
				}
			})
		}
		together.Wait()
		if len(wins) != 1 {
			t.Fatalf("round %d: %d clients won, want 1", round, len(wins))
		}
	}
}

func TestBackend_TwoTablesDoNotMeet(t *testing.T) {
	a, b := newTable(t), newTable(t)
	win(t, a.open(t), request("a", long))
	win(t, b.open(t), request("a", long))
}

func TestBackend_Owner_MayBeEmpty(t *testing.T) {
	s := newTable(t)
	req := request("a", long)
	req.Owner = ""
	win(t, s.open(t), req)
	if h := holder(t, s.open(t), "a"); h.Owner != "" || h.Fence == 0 {
		t.Errorf("holder %+v", h)
	}
}

func TestBackend_Calls_SendNothingWhenTheirContextIsOver(t *testing.T) {
	s := newTable(t)
	var c counter
	b := s.openWith(t, over(c.count))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"TryAcquire":     func() error { _, err := b.TryAcquire(ctx, request("a", long)); return err },
		"TryAcquireSlot": func() error { _, _, err := b.TryAcquireSlot(ctx, request("a", long), 3); return err },
		"Abandon":        func() error { return b.Abandon(ctx, request("a", long)) },
		"Inspect":        func() error { _, err := b.Inspect(ctx, "a"); return err },
		"Break":          func() error { return b.Break(ctx, "a", 1) },
		"Migrate":        func() error { return b.Migrate(ctx) },
		"Advise":         func() error { _, err := b.Advise(ctx); return err },
		"PutRecord":      func() error { _, err := b.PutRecord(ctx, backend.Record{Key: "a!b/c"}); return err },
		"GetRecords":     func() error { _, _, err := b.GetRecords(ctx, "a!b/"); return err },
		"DeleteRecord":   func() error { return b.DeleteRecord(ctx, backend.Record{Key: "a!b/c"}) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := c.requests.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}
