package mongoleader_test

import (
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

func TestBackend_GetRecords_DeletesWhatHasExpired(t *testing.T) {
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	b, records := open(t, db, nil), db.Collection("leader_records")
	count := func() int64 {
		t.Helper()
		n, err := records.CountDocuments(t.Context(), doc())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, r := range []backend.Record{
		{Key: "job!run/1", TTL: 20 * time.Millisecond},
		{Key: "job!run/2", TTL: 20 * time.Millisecond},
		{Key: "job!run/3", TTL: long},
		{Key: "job!run/4"},
		{Key: "other!run/1", TTL: 20 * time.Millisecond},
	} {
		if _, err := b.PutRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 5 {
		t.Fatalf("%d documents", n)
	}
	eventually(t, "the expired ones are gone", func() bool {
		list, now, err := b.GetRecords(t.Context(), "job!run/")
		if err != nil || now.IsZero() {
			t.Fatal(now, err)
		}
		return len(list) == 2
	})
	eventually(t, "their documents too, but not those of another set", func() bool {
		_, _, err := b.GetRecords(t.Context(), "job!run/")
		return err == nil && count() == 3
	})
}

func TestBackend_GetRecords_TellsTheTimeOfAnEmptySet(t *testing.T) {
	b, _ := start(t)
	list, now, err := b.GetRecords(t.Context(), "job!run/")
	if err != nil || len(list) > 0 || now.IsZero() {
		t.Errorf("got %v, %v, %v", list, now, err)
	}
}

func TestBackend_Records_RefuseWhatIsNoKeyOfARecord(t *testing.T) {
	b, _ := start(t)
	for _, key := range []string{"", "job", "job!run", "job/run!x", "job#1"} {
		_, err := b.PutRecord(t.Context(), backend.Record{Key: key})
		kind(t, "PutRecord("+key+")", err, backend.Misconfigured)
		kind(t, "DeleteRecord("+key+")", b.DeleteRecord(t.Context(), backend.Record{Key: key}), backend.Misconfigured)
		_, _, err = b.GetRecords(t.Context(), key)
		kind(t, "GetRecords("+key+")", err, backend.Misconfigured)
	}
	for _, ttl := range []time.Duration{-1, 11 * 365 * 24 * time.Hour} {
		_, err := b.PutRecord(t.Context(), backend.Record{Key: "job!run/1", TTL: ttl})
		kind(t, "PutRecord with TTL "+ttl.String(), err, backend.Misconfigured)
	}
}
