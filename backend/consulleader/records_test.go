package consulleader_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
)

func put(t testing.TB, b backend.Records, r backend.Record) backend.Record {
	t.Helper()
	version, err := b.PutRecord(t.Context(), r)
	if err != nil {
		t.Fatalf("PutRecord(%q): %v", r.Key, err)
	}
	r.Version = version
	return r
}

func conflict(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrConflict) {
		t.Errorf("%s: %v, want ErrConflict", what, err)
	}
}

func TestBackend_PutRecord_RenewsTheSessionOfWhatItReplaces(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b, f := through(t, server, nil)
	r := put(t, b, backend.Record{Key: "job!candidate/a", Value: []byte("1"), TTL: long})
	for range 10 { // heartbeats
		r = put(t, b, r)
	}
	if n := f.count("/v1/session/create"); n != 1 {
		t.Errorf("%d sessions were made", n)
	}
	own := pair(t, client, r.Key).Session
	destroy(t, client, own)
	if p := pair(t, client, r.Key); p != nil {
		t.Errorf("the record outlives its session: %+v", p)
	}
	_, err := b.PutRecord(t.Context(), r)
	conflict(t, "a put on what is gone", err)
	r.Version = ""
	r = put(t, b, r)
	// Another backend takes it over, with a session of its own, and then the first again.
	r = put(t, open(t, client, nil), r)
	r = put(t, b, r)
	r.TTL = 0
	r = put(t, b, r)
	if p := pair(t, client, r.Key); p == nil || p.Session != "" {
		t.Errorf("a record without a TTL is held by a session: %+v", p)
	}
	if err := b.DeleteRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if p := pair(t, client, r.Key); p != nil {
		t.Errorf("left %+v", p)
	}
}

func TestBackend_PutRecord_LeavesNoSessionWhereItStoresNothing(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	r := put(t, b, backend.Record{Key: "job!candidate/a", TTL: long})
	for range 5 {
		_, err := b.PutRecord(t.Context(), backend.Record{Key: r.Key, TTL: long})
		conflict(t, "a second record", err)
		_, err = b.PutRecord(t.Context(), backend.Record{Key: r.Key, Version: "1", TTL: 2 * long})
		conflict(t, "another version", err)
	}
	if err := b.DeleteRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no session is left", func() bool { return len(sessions(t, client)) == 0 })
}

func TestBackend_PutRecord_KeepsOneOverADayByTheClientsClocks(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	const week = 7 * 24 * time.Hour
	r := put(t, b, backend.Record{Key: "job!run/a", Value: []byte("x y"), TTL: week})
	list, _, err := b.GetRecords(t.Context(), "job!run/")
	if err != nil || len(list) != 1 || list[0].Version != r.Version || string(list[0].Value) != "x y" {
		t.Fatalf("records %+v, %v", list, err)
	}
	if left := list[0].TTL; left > week || left < week-time.Minute {
		t.Errorf("%v are left", left)
	}
	if len(sessions(t, client)) != 0 {
		t.Error("a session was made")
	}
	r = put(t, b, list[0])

	// As a week later.
	p := pair(t, client, r.Key)
	ended := "1 604800000000 1000000 x y"
	if _, err := client.KV().Put(&api.KVPair{Key: p.Key, Value: []byte(ended)}, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteRecord(t.Context(), backend.Record{Key: r.Key, Version: "1"}); err != nil {
		t.Errorf("deleting what has expired: %v", err)
	}
	next := put(t, b, backend.Record{Key: r.Key, Value: []byte("next"), TTL: week})
	_, err = b.PutRecord(t.Context(), backend.Record{Key: r.Key})
	conflict(t, "a second record", err)
	if err := b.DeleteRecord(t.Context(), next); err != nil {
		t.Error(err)
	}
	if _, err := client.KV().Put(&api.KVPair{Key: p.Key, Value: []byte(ended)}, nil); err != nil {
		t.Fatal(err)
	}
	if list, _, err := b.GetRecords(t.Context(), "job!run/"); err != nil || len(list) > 0 {
		t.Errorf("records %+v, %v", list, err)
	}
	eventually(t, "what has expired is deleted", func() bool { return pair(t, client, r.Key) == nil })
}

func TestBackend_Records_RefuseWhatIsNoRecord(t *testing.T) {
	t.Parallel()
	b, f := through(t, ownServer(t), nil)
	for _, key := range []string{"job", "job#0", "job!kind", "job!kind/", "job/a"} {
		_, err := b.PutRecord(t.Context(), backend.Record{Key: key})
		kind(t, "PutRecord "+key, err, backend.Misconfigured)
		kind(t, "DeleteRecord "+key, b.DeleteRecord(t.Context(), backend.Record{Key: key}), backend.Misconfigured)
	}
	for _, prefix := range []string{"job", "job!kind", "job!kind/a", ""} {
		_, _, err := b.GetRecords(t.Context(), prefix)
		kind(t, "GetRecords "+prefix, err, backend.Misconfigured)
	}
	_, err := b.PutRecord(t.Context(), backend.Record{Key: "a!k/1", TTL: -1})
	kind(t, "a negative TTL", err, backend.Misconfigured)
	if f.count("") > 0 {
		t.Error("a request was sent")
	}
}

func TestBackend_Advise_WarnsOfAnAgentThatKeepsNothing(t *testing.T) {
	t.Parallel()
	b, f := through(t, ownServer(t), nil)
	f.set(func(r *http.Request, _ string) (*http.Response, error) {
		if r.URL.Path != "/v1/agent/self" {
			return nil, errPass
		}
		rec := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
		rec.Body = body(`{"DebugConfig":{"DevMode":true,"LeaveOnTerm":false}}`)
		return rec, nil
	})
	warnings, err := b.Advise(t.Context())
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "-dev") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
}

func TestBackend_Limits_AreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	client := connectTo(t, "127.0.0.1:1", "")
	with := open(t, client, nil).Limits()
	without := open(t, client, noDelay).Limits()
	if with.MinTTL != consulleader.MinTTL || with.MaxTTL != consulleader.MaxTTL || !with.FixedTTL || !with.LookFirst || with.Blocking {
		t.Errorf("limits %+v", with)
	}
	if with.Late-without.Late != ttl || without.Late < ttl {
		t.Errorf("late by %v with the default lock-delay, %v without one", with.Late, without.Late)
	}
}

func TestBackend_PutRecord_RoundsAShortTTLUpAndTellsNoTime(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := connect(t, server)
	b := open(t, client, nil)
	r := put(t, b, backend.Record{Key: "job!candidate/a", Value: []byte("v"), TTL: time.Second})
	p := pair(t, client, r.Key)
	info, _, err := client.Session().Info(p.Session, nil)
	if err != nil || info == nil || info.TTL != (ttl+consulleader.Reuse).String() || info.LockDelay != 0 {
		t.Errorf("session %+v, %v", info, err)
	}
	if p.Key != "leader/.records/job!candidate/a" || string(p.Value) != "1 1000000 0 v" {
		t.Errorf("stored %s under %s", p.Value, p.Key)
	}
	list, now, err := b.GetRecords(t.Context(), "job!candidate/")
	if err != nil || !now.IsZero() || len(list) != 1 || list[0].TTL != time.Second {
		t.Errorf("records %+v at %v, %v", list, now, err)
	}
}

func TestBackend_TryAcquireSlot_BeginsAtARandomOne(t *testing.T) {
	t.Parallel()
	b := open(t, connect(t, ownServer(t)), nil)
	first := map[int]bool{}
	for range 30 {
		lease, slot, err := b.TryAcquireSlot(t.Context(), request("g", long), 8)
		if err != nil {
			t.Fatal(err)
		}
		first[slot] = true
		release(t, lease, 0)
	}
	if len(first) < 3 {
		t.Errorf("30 attempts began at %v", first)
	}
}
