package dynamoleader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// What a renewal before this one has written counts from that one.
func TestLease_Renew_AfterALostAnswer_WritesItself(t *testing.T) {
	s := newTable(t)
	var lose atomic.Bool
	b := s.openWith(t, over(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(request *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(request)
			if err == nil && operation(request) == "UpdateItem" && lose.CompareAndSwap(true, false) {
				_ = answer.Body.Close()
				return nil, io.ErrUnexpectedEOF
			}
			return answer, err
		})
	}))
	lease := win(t, b, request("a", long))
	won := s.stored(t, "a", "lease")["stamp"]
	lose.Store(true)
	kind(t, "Renew", lease.Renew(t.Context(), long), backend.Unavailable)
	lost := s.stored(t, "a", "lease")["stamp"]
	renew(t, lease, long)
	if renewed := s.stored(t, "a", "lease")["stamp"]; reflect.DeepEqual(won, lost) || reflect.DeepEqual(lost, renewed) {
		t.Errorf("stamps %v, %v and %v, want three", won, lost, renewed)
	}
}

// A release whose answer was lost may be repeated when the lease would be over.
func TestLease_Release_KeepsOnAfterTheLeaseWouldBeOver(t *testing.T) {
	s := newTable(t)
	a, b := s.open(t), s.open(t)
	const ttl = time.Second
	kept := win(t, a, request("kept", ttl))
	release(t, kept, long)
	over := win(t, a, request("over", ttl))
	time.Sleep(ttl + 50*time.Millisecond)
	release(t, kept, 2*long)
	if h := inspect(t, b, "kept"); !h.Kept || h.Remaining <= long {
		t.Errorf("a key that is kept anew has %+v", h)
	}
	release(t, over, long)
	if h := inspect(t, b, "over"); !h.Free() {
		t.Errorf("a lease that had expired is kept: %+v", h)
	}
	release(t, kept, 0)
	next := win(t, b, request("kept", long))
	release(t, kept, long)
	if h := inspect(t, b, "kept"); h.Fence != next.Fence() || h.Kept {
		t.Errorf("the successor was kept: %+v", h)
	}
}

// A release that arrives after the key was freed takes it from nobody.
func TestLease_Release_KeepsNothingThatIsFree(t *testing.T) {
	s := newTable(t)
	a, b := s.open(t), s.open(t)
	lease := win(t, a, request("a", long))
	release(t, lease, 0)
	release(t, lease, long)
	if h := inspect(t, b, "a"); !h.Free() {
		t.Errorf("a key that was released has %+v", h)
	}
	lease = win(t, a, request("a", long))
	if err := b.Break(t.Context(), "a", lease.Fence()); err != nil {
		t.Fatal(err)
	}
	release(t, lease, long)
	if h := inspect(t, b, "a"); !h.Free() {
		t.Errorf("a key whose lease was broken has %+v", h)
	}
}

// An item that is read as free and cannot be taken would keep everybody waiting.
func TestBackend_ItemWithoutALease_IsMisconfigured(t *testing.T) {
	s := newTable(t)
	b := s.open(t)
	for name, value := range map[string]types.AttributeValue{
		"format": &types.AttributeValueMemberN{Value: "1"}, "fence": &types.AttributeValueMemberN{Value: "7"},
	} {
		s.set(t, "a", "lease", name, value)
	}
	_, err := b.TryAcquire(t.Context(), request("a", long))
	kind(t, "TryAcquire", err, backend.Misconfigured)
	_, err = b.Inspect(t.Context(), "a")
	kind(t, "Inspect", err, backend.Misconfigured)
}

// An answer of the service has a megabyte at most.
func TestBackend_Megabytes_AreReadInPages(t *testing.T) {
	s := newTable(t)
	b := s.open(t)
	var c counter
	counted := s.openWith(t, over(c.count))
	padding := &types.AttributeValueMemberS{Value: strings.Repeat("x", 300<<10)}
	const n = 5
	for i := range n {
		id := strconv.Itoa(i)
		win(t, b, request(backend.SlotKey("g", i), long))
		if _, err := b.PutRecord(t.Context(), backend.Record{Key: "g!candidate/" + id}); err != nil {
			t.Fatal(err)
		}
		s.set(t, "g", "lease#"+id, "of", padding)
		s.set(t, "g", "record!candidate/"+id, "of", padding)
	}
	_, _, err := counted.TryAcquireSlot(t.Context(), request("g", long), n)
	if requests, writes := c.requests.Load(), c.writes.Load(); !errors.Is(err, backend.ErrHeld) || requests != 2 || writes > 0 {
		t.Errorf("a full group: %v after %d requests, %d of them writes, want 2 and none", err, requests, writes)
	}
	if list, _, err := counted.GetRecords(t.Context(), "g!candidate/"); err != nil || len(list) != n {
		t.Errorf("%d records of %d, %v", len(list), n, err)
	}
	listed := 0
	for _, err := range counted.List(t.Context(), "", false) {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != n {
		t.Errorf("%d leases of %d are listed", listed, n)
	}
}

// The Date of an answer is up to a second behind the time.
func TestBackend_Record_NeverEndsEarly(t *testing.T) {
	s := newTable(t)
	var date atomic.Int64
	b := s.openWith(t, over(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(request *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(request)
			if err == nil {
				answer.Header.Set("Date", time.Unix(date.Load(), 0).UTC().Format(http.TimeFormat))
			}
			return answer, err
		})
	}))
	date.Store(time.Now().Unix()) // and almost a second more
	if _, err := b.PutRecord(t.Context(), backend.Record{Key: "a!b/c", TTL: 1500 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ after, want int }{{2, 1}, {60, 0}} {
		date.Add(int64(step.after))
		if list, _, err := b.GetRecords(t.Context(), "a!b/"); err != nil || len(list) != step.want {
			t.Errorf("%d seconds later there are %d records, %v, want %d", step.after, len(list), err, step.want)
		}
	}
}

// What must not be deleted is left, and costs no more than one try.
func TestBackend_GetRecords_WhereNothingMayBeDeleted_TriesOnce(t *testing.T) {
	s := newTable(t)
	deletions := 0
	var w switched
	b := s.openWith(t, over(w.wrap))
	w.set(func(request *http.Request) (*http.Response, error) {
		if operation(request) != "DeleteItem" {
			return nil, nil
		}
		deletions++
		return refusal(request, http.StatusBadRequest, "AccessDeniedException"), nil
	})
	for i := range 3 {
		id := strconv.Itoa(i)
		if _, err := b.PutRecord(t.Context(), backend.Record{Key: "a!b/" + id, TTL: long}); err != nil {
			t.Fatal(err)
		}
		s.set(t, "a", "record!b/"+id, "ends", ms(time.Now().Add(-long)))
	}
	if list, _, err := b.GetRecords(t.Context(), "a!b/"); err != nil || len(list) != 0 || deletions != 1 {
		t.Errorf("%d records, %v, after %d deletions, want none and 1", len(list), err, deletions)
	}
	w.set(nil)
	if _, _, err := b.GetRecords(t.Context(), "a!b/"); err != nil {
		t.Fatal(err)
	}
	if item := s.stored(t, "a", "record!b/0"); len(item) > 0 {
		t.Errorf("an expired record is left: %v", item)
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
