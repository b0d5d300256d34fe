package leadertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader/backend"
)

func mustPut(t *testing.T, rs *records, r backend.Record) (version string) {
	t.Helper()
	version, err := rs.PutRecord(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func valuesOf(t *testing.T, rs *records, prefix string) map[string]string {
	t.Helper()
	list, _, err := rs.GetRecords(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for _, r := range list {
		values[r.Key] = string(r.Value)
	}
	return values
}

func TestRecords_CompareVersions(t *testing.T) {
	rs := &records{}
	r := backend.Record{Key: "job!run.1/run", Value: []byte("a")}
	first := mustPut(t, rs, r)
	if _, err := rs.PutRecord(t.Context(), r); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("create again: %v, want ErrConflict", err)
	}
	r.Version, r.Value = first, []byte("b")
	second := mustPut(t, rs, r)
	if err := rs.DeleteRecord(t.Context(), r); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("delete the old version: %v, want ErrConflict", err)
	}
	if got := valuesOf(t, rs, "job!run.1/"); len(got) != 1 || got[r.Key] != "b" {
		t.Errorf("%v, want the newest value", got)
	}
	r.Version = second
	for range 2 { // a missing record is no error
		if err := rs.DeleteRecord(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	r.Version = ""
	if third := mustPut(t, rs, r); first == second || third == first || third == second {
		t.Errorf("versions %s, %s, %s; want no one twice", first, second, third)
	}
}

func TestRecords_AreSetsAndOwnTheirBytes(t *testing.T) {
	rs := &records{}
	value := []byte("a")
	mustPut(t, rs, backend.Record{Key: "job!run.1/run", Value: value})
	mustPut(t, rs, backend.Record{Key: "job!run.10/run"})
	value[0] = 'b'
	list, now, err := rs.GetRecords(t.Context(), "job!run.1/")
	if err != nil || len(list) != 1 || string(list[0].Value) != "a" || now.IsZero() {
		t.Fatalf("%v at %v, %v; want one record with its first value", list, now, err)
	}
	list[0].Value[0] = 'c'
	if got := valuesOf(t, rs, "job!run.1/")["job!run.1/run"]; got != "a" {
		t.Errorf("%q, want the value not to be shared", got)
	}
}

func TestRecords_Expire_AndAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := &records{}
		for i := range 10 * sweepAt {
			r := backend.Record{Key: fmt.Sprintf("job!run.%d/run", i), TTL: time.Minute}
			if version := mustPut(t, rs, r); i%100 == 0 {
				time.Sleep(time.Minute)
				if got := valuesOf(t, rs, r.Key); len(got) != 0 {
					t.Fatalf("%v, want it expired", got)
				}
				r.Version = version
				if _, err := rs.PutRecord(t.Context(), r); !errors.Is(err, backend.ErrConflict) {
					t.Fatalf("replace an expired record: %v, want ErrConflict", err)
				}
			}
		}
		if n := len(rs.all); n > 2*sweepAt {
			t.Errorf("%d records are kept, of which a hundred have not expired", n)
		}
	})
}

func TestRecords_EndWithTheContext(t *testing.T) {
	rs := &records{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, putErr := rs.PutRecord(ctx, backend.Record{Key: "job!run.1/run"})
	_, _, getErr := rs.GetRecords(ctx, "job!run.1/")
	for _, err := range []error{putErr, getErr, rs.DeleteRecord(ctx, backend.Record{Key: "job!run.1/run"})} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the end of the context", err)
		}
	}
	if len(rs.all) != 0 {
		t.Error("something was put")
	}
}
