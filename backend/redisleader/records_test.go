package redisleader_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

func putRecord(t testing.TB, b backend.Records, r backend.Record) backend.Record {
	t.Helper()
	version, err := b.PutRecord(t.Context(), r)
	if err != nil || version == "" || version == r.Version {
		t.Fatalf("PutRecord(%q): %q after %q, %v", r.Key, version, r.Version, err)
	}
	r.Version = version
	return r
}

func records(t testing.TB, b backend.Records, set string) []backend.Record {
	t.Helper()
	list, _, err := b.GetRecords(t.Context(), set)
	if err != nil {
		t.Fatalf("GetRecords(%q): %v", set, err)
	}
	return list
}

func TestBackend_Records_AreOneReadableHash(t *testing.T) {
	b, client := start(t)
	first := putRecord(t, b, backend.Record{Key: "nightly!candidate/web-1", Value: []byte("a b\x00"), TTL: time.Minute})
	second := putRecord(t, b, backend.Record{Key: "nightly!candidate/web-2"})
	if key := only(t, client); key != "leader:{nightly}!candidate" {
		t.Errorf("the set is stored as %q", key)
	}
	fields := record(t, client)
	if fields["format"] != "1" || len(fields) != 3 || fields["/web-2"] != second.Version+" 0 " {
		t.Errorf("set %q", fields)
	}
	version, rest, _ := strings.Cut(fields["/web-1"], " ")
	end, value, _ := strings.Cut(rest, " ")
	if version != first.Version || value != "a b\x00" {
		t.Errorf("set %q", fields)
	}
	if left := time.Until(time.UnixMicro(number(t, end))); left > time.Minute+patience || left < time.Minute-patience {
		t.Errorf("the record ends in %v", left)
	}
}

// A set stays while one of its records has no end, and 7 days longer than the last of the others.
func TestBackend_Records_GoWithTheirSet(t *testing.T) {
	b, client := start(t)
	brieflyThere := putRecord(t, b, backend.Record{Key: "a!x/1", TTL: time.Minute})
	checkRetention(t, client, time.Minute)
	putRecord(t, b, backend.Record{Key: "a!x/2", TTL: time.Hour})
	checkRetention(t, client, time.Hour)
	brieflyThere = putRecord(t, b, brieflyThere)
	checkRetention(t, client, time.Hour)
	brieflyThere.TTL = 0
	brieflyThere = putRecord(t, b, brieflyThere)
	putRecord(t, b, backend.Record{Key: "a!x/3", TTL: time.Hour})
	if left := client.PTTL(t.Context(), only(t, client)).Val(); left != -1 {
		t.Errorf("a set with a record that has no end stays for %v", left)
	}
	for _, r := range append(records(t, b, "a!x/"), brieflyThere) {
		if err := b.DeleteRecord(t.Context(), r); err != nil {
			t.Errorf("DeleteRecord(%q): %v", r.Key, err)
		}
	}
	checkRetention(t, client, 0)
}

func TestBackend_Records_ThatHaveExpiredAreDeletedByAnyReader(t *testing.T) {
	b, client := start(t)
	for i := range 10 {
		putRecord(t, b, backend.Record{Key: fmt.Sprintf("a!x/%d", i), TTL: brief})
	}
	last := putRecord(t, b, backend.Record{Key: "a!x/last"})
	eventually(t, "only one is left", func() bool { return len(records(t, b, "a!x/")) == 1 })
	if fields := record(t, client); len(fields) != 2 || fields["/last"] != last.Version+" 0 " {
		t.Errorf("set %q", fields)
	}
}

func TestBackend_Records_KeepWhatTheyDoNotKnow(t *testing.T) {
	b, client := start(t)
	r := putRecord(t, b, backend.Record{Key: "a!x/1"})
	if err := client.HSet(t.Context(), only(t, client), "format", "1.7", "colour", "red").Err(); err != nil {
		t.Fatal(err)
	}
	r = putRecord(t, b, r)
	if list := records(t, b, "a!x/"); len(list) != 1 || list[0].Version != r.Version {
		t.Errorf("records %+v", list)
	}
	if err := b.DeleteRecord(t.Context(), r); err != nil {
		t.Error(err)
	}
	if fields := record(t, client); fields["format"] != "1.7" || fields["colour"] != "red" || len(fields) != 2 {
		t.Errorf("set %q", fields)
	}
}

func TestBackend_Records_OfADamagedSetAreReportedAndNotOverwritten(t *testing.T) {
	for name, make := range map[string]func(c redis.Pipeliner, key string){
		"string":     func(c redis.Pipeliner, key string) { c.Del(t.Context(), key); c.Set(t.Context(), key, "x", 0) },
		"list":       func(c redis.Pipeliner, key string) { c.Del(t.Context(), key); c.RPush(t.Context(), key, "x") },
		"no format":  func(c redis.Pipeliner, key string) { c.HDel(t.Context(), key, "format") },
		"next major": func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "format", "2") },
		"no version": func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "/1", " 0 x") },
		"no end":     func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "/1", "A never x") },
		"no value":   func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "/1", "A 0") },
		"empty":      func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "/1", "") },
	} {
		t.Run(name, func(t *testing.T) {
			b, client := start(t)
			r := putRecord(t, b, backend.Record{Key: "a!x/1", TTL: long})
			key := only(t, client)
			_, err := client.TxPipelined(t.Context(), func(c redis.Pipeliner) error { make(c, key); return nil })
			if err != nil {
				t.Fatal(err)
			}
			before := client.Dump(t.Context(), key).Val()
			_, put := b.PutRecord(t.Context(), r)
			_, create := b.PutRecord(t.Context(), backend.Record{Key: "a!x/1"})
			_, _, get := b.GetRecords(t.Context(), "a!x/")
			for verb, err := range map[string]error{
				"PutRecord":              put,
				"PutRecord of a new one": create,
				"GetRecords":             get,
				"DeleteRecord":           b.DeleteRecord(t.Context(), r),
			} {
				kind(t, verb, err, backend.Misconfigured)
			}
			if after := client.Dump(t.Context(), key).Val(); after == "" || after != before {
				t.Errorf("the value was changed: %q, then %q", before, after)
			}
		})
	}
}

func TestBackend_Records_RefuseAKeyThatIsNone(t *testing.T) {
	b, client := start(t)
	for _, key := range []string{"", "a", "a/b", "a!b", "a!b/", "!"} {
		_, err := b.PutRecord(t.Context(), backend.Record{Key: key})
		kind(t, "PutRecord of "+key, err, backend.Misconfigured)
		kind(t, "DeleteRecord of "+key, b.DeleteRecord(t.Context(), backend.Record{Key: key}), backend.Misconfigured)
	}
	for _, set := range []string{"", "a", "a!", "a!b", "a!b/c"} {
		_, _, err := b.GetRecords(t.Context(), set)
		kind(t, "GetRecords of "+set, err, backend.Misconfigured)
	}
	_, err := b.PutRecord(t.Context(), backend.Record{Key: "a!b/c", TTL: -1})
	kind(t, "PutRecord with a negative TTL", err, backend.Misconfigured)
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// The client sends a command again when its answer does not come, and then it must not be in its own way.
func TestBackend_LostReply_OfARecordOrASlotIsNoConflict(t *testing.T) {
	server := testserver.Redis(t)
	b, proxy := behind(t, server)
	warm := putRecord(t, b, backend.Record{Key: "a!x/warm"})
	if err := b.DeleteRecord(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	winSlot(t, b, request("warm", long), 3)
	lose := func(call func()) {
		t.Helper()
		trap := proxy.SwallowReply(isScript)
		call()
		caught(t, trap)
	}
	r := backend.Record{Key: "a!x/1", Value: []byte("v"), TTL: long}
	lose(func() { r = putRecord(t, b, r) })
	lose(func() { r = putRecord(t, b, r) })
	if list := records(t, b, "a!x/"); len(list) != 1 || list[0].Version != r.Version || !bytes.Equal(list[0].Value, r.Value) {
		t.Errorf("records %+v, want %+v", list, r)
	}
	lose(func() {
		if err := b.DeleteRecord(t.Context(), r); err != nil {
			t.Error(err)
		}
	})
	if _, err := b.PutRecord(t.Context(), r); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("PutRecord over a deleted one: %v, want ErrConflict", err)
	}
	var s slotted
	lose(func() { s = winSlot(t, b, request("job", long), 5) })
	for slot := range 5 {
		if h := inspect(t, b, backend.SlotKey("job", slot)); h.Free() != (slot != s.slot) {
			t.Errorf("slot %d: %+v, and %d was given", slot, h, s.slot)
		}
	}
}
