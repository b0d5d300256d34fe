package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// recordSet is the prefix of the set that most cases use, and record1 the key of a record in it.
const (
	recordSet = "job!candidate/"
	record1   = recordSet + "node-1"
)

// longRecord is a TTL that no case outlives. The limits of leases do not matter to records.
const longRecord = 10 * time.Minute

// recordCases are about versions.
func recordCases() []testCase {
	return []testCase{
		{
			name: "Records_AreCreatedOnce",
			rule: abilityRecords,
			says: "a put without a version creates a record, and is ErrConflict if there is one",
			run:  recordsAreCreatedOnce,
		},
		{
			name: "Records_CompareVersions",
			rule: abilityRecords,
			says: "a put replaces the record if it has the stored version, else it is ErrConflict and changes nothing",
			run:  recordsCompareVersions,
		},
		{
			name: "Records_NeverReuseAVersion",
			rule: abilityRecords,
			says: "a version differs from every earlier one of the key, whatever the value, deleted ones included",
			run:  recordsNeverReuseAVersion,
		},
		{
			name: "Records_HaveOneWinner",
			rule: abilityRecords,
			says: "of puts and deletions at the same time with the same version exactly one succeeds",
			run:  recordsHaveOneWinner,
		},
		{
			name: "Records_LoseNoUpdate",
			rule: abilityRecords,
			says: "a counter that eight workers on two clients raise by compare-and-set counts them all",
			run:  recordsLoseNoUpdate,
		},
		{
			name: "Records_DeleteCompares",
			rule: abilityRecords,
			says: "DeleteRecord deletes if it has the stored version, else it is ErrConflict and changes nothing",
			run:  recordsDeleteCompares,
		},
		{
			name: "Records_DeleteOfNothingIsNil",
			rule: abilityRecords,
			says: "DeleteRecord of a missing record returns nil",
			run:  recordsDeleteOfNothingIsNil,
		},
		{
			name: "Records_EndWithTheContext",
			rule: abilityRecords,
			says: "each call whose context is over returns an error that wraps the context's and changes nothing",
			run:  recordsEndWithTheContext,
		},
		{
			name:  "Records_SurviveARestart",
			rule:  abilityRecords,
			says:  "a record and its version are there after the store was killed, and no version comes back",
			needs: needRestart,
			run:   recordsSurviveARestart,
		},
	}
}

// recordPair returns two clients of a new store that keep records.
func (t *caseT) recordPair() (a, b backend.Records) {
	t.Helper()
	x, y := t.pair()
	return ability[backend.Records](t, x), ability[backend.Records](t, y)
}

// put stores a record, must succeed, and returns it with its version.
func (t *caseT) put(d backend.Records, r backend.Record) backend.Record {
	t.Helper()
	version, err := d.PutRecord(t.Context(), r)
	switch {
	case err != nil:
		t.Fatalf("PutRecord(%q) on version %q: %v, want success", r.Key, r.Version, err)
	case version == "":
		t.Fatalf("PutRecord(%q): the version is empty", r.Key)
	}
	r.Version = version
	return r
}

// noPut tries to store a record, which must be refused.
func (t *caseT) noPut(d backend.Records, r backend.Record) {
	t.Helper()
	if _, err := d.PutRecord(t.Context(), r); !errors.Is(err, backend.ErrConflict) {
		t.Fatalf("PutRecord(%q) on version %q: %v, want ErrConflict", r.Key, r.Version, orSuccess(err))
	}
}

// remove deletes a record and must succeed.
func (t *caseT) remove(d backend.Records, r backend.Record) {
	t.Helper()
	if err := d.DeleteRecord(t.Context(), r); err != nil {
		t.Fatalf("DeleteRecord(%q) on version %q: %v, want nil", r.Key, r.Version, err)
	}
}

// records returns a set by its keys.
func (t *caseT) records(d backend.Records, set string) map[string]backend.Record {
	t.Helper()
	list, _, err := d.GetRecords(t.Context(), set)
	if err != nil {
		t.Fatalf("GetRecords(%q): %v", set, err)
	}
	found := make(map[string]backend.Record, len(list))
	for _, r := range list {
		if _, twice := found[r.Key]; twice {
			t.Fatalf("GetRecords(%q) has %q twice", set, r.Key)
		}
		if !strings.HasPrefix(r.Key, set) {
			t.Fatalf("GetRecords(%q) has %q", set, r.Key)
		}
		found[r.Key] = r
	}
	return found
}

// setOf is the prefix of the set that a record is in.
func setOf(key string) string { return key[:strings.LastIndex(key, "/")+1] }

// stored checks that a record is there as it was put.
func (t *caseT) stored(d backend.Records, want backend.Record) backend.Record {
	t.Helper()
	got, ok := t.records(d, setOf(want.Key))[want.Key]
	if !ok || got.Version != want.Version || string(got.Value) != string(want.Value) {
		t.Fatalf("GetRecords has %q with version %q, value %.40q (found: %t), want version %q, value %.40q",
			want.Key, got.Version, got.Value, ok, want.Version, want.Value)
	}
	return got
}

// noRecord checks that there is no such record.
func (t *caseT) noRecord(d backend.Records, key string) {
	t.Helper()
	if r, ok := t.records(d, setOf(key))[key]; ok {
		t.Fatalf("GetRecords has %+v, want no such record", r)
	}
}

func recordsAreCreatedOnce(t *caseT) {
	a, b := t.recordPair()
	t.noRecord(a, record1)
	first := t.put(a, backend.Record{Key: record1, Value: []byte("first")})
	t.stored(b, first)
	for _, d := range []backend.Records{a, b} {
		t.noPut(d, backend.Record{Key: record1, Value: []byte("second")})
		t.noPut(d, backend.Record{Key: record1, Value: []byte("first"), TTL: longRecord})
	}
	t.stored(b, first)
	other := t.put(b, backend.Record{Key: recordSet + "node-2", Value: []byte("other")})
	t.stored(a, first)
	t.stored(a, other)
}

func recordsCompareVersions(t *caseT) {
	a, b := t.recordPair()
	t.noPut(a, backend.Record{Key: record1, Version: "1", Value: []byte("no version of ours")})
	t.noRecord(b, record1)
	first := t.put(a, backend.Record{Key: record1, Value: []byte("first"), TTL: longRecord})
	second := first
	second.Value = []byte("second")
	second = t.put(b, second)
	t.stored(a, second)
	for _, d := range []backend.Records{a, b} {
		for _, version := range []string{first.Version, "1", second.Version + "0", "0" + second.Version, "-1", "x"} {
			if version != second.Version {
				t.noPut(d, backend.Record{Key: record1, Version: version, Value: []byte("late"), TTL: longRecord})
			}
		}
		t.stored(d, second)
	}
	other := t.put(a, backend.Record{Key: recordSet + "node-2", Value: []byte("other"), TTL: longRecord})
	t.remove(b, second)
	t.noPut(a, second) // what was deleted cannot be replaced
	t.noRecord(b, record1)
	t.stored(b, other)
}

func recordsNeverReuseAVersion(t *caseT) {
	a, b := t.recordPair()
	var seen []string
	put := func(d backend.Records, r backend.Record) backend.Record {
		t.Helper()
		r = t.put(d, r)
		if slices.Contains(seen, r.Version) {
			t.Fatalf("PutRecord returns version %q again", r.Version)
		}
		seen = append(seen, r.Version)
		return r
	}
	r := backend.Record{Key: record1, Value: []byte("always the same")}
	for i := range 20 {
		d, other := a, b
		if i%2 == 1 {
			d, other = b, a
		}
		r.Version, r.TTL = "", longRecord
		r = put(d, put(other, put(d, r)))
		t.remove(d, r)
		t.noRecord(other, record1)
	}
	r.Version, r.TTL = "", t.ttl()
	r = put(a, r)
	t.expired(b, record1)
	late := r
	r.Version, r.TTL = "", longRecord
	put(b, r)
	t.noPut(a, late)
}

func recordsHaveOneWinner(t *caseT) {
	a, b := t.recordPair()
	const racers = 20
	base := backend.Record{Key: record1}
	for round := range 6 {
		wins := make(chan backend.Record, racers)
		t.together(racers, func(i int) {
			d := a
			if i%2 == 1 {
				d = b
			}
			mine := base
			mine.Value = fmt.Appendf(nil, "round %d, racer %d", round, i)
			var err error
			if base.Version != "" && i%4 == 3 {
				err = d.DeleteRecord(t.Context(), base)
			} else if mine.Version, err = d.PutRecord(t.Context(), mine); err == nil {
				wins <- mine
			}
			if err != nil && !errors.Is(err, backend.ErrConflict) {
				t.Errorf("PutRecord or DeleteRecord: %v, want success or ErrConflict", err)
			}
		})
		switch left := t.records(a, recordSet); {
		case len(wins) > 1, len(wins) != len(left):
			t.Fatalf("%d of %d puts with one version succeeded and %d records are there, want one winner",
				len(wins), racers, len(left))
		case len(wins) == 0: // a deletion won
			base.Version = ""
		default:
			base = <-wins
			t.stored(b, base)
		}
	}
}

func recordsLoseNoUpdate(t *caseT) {
	a, b := t.recordPair()
	const workers, raises = 8, 10
	t.put(a, backend.Record{Key: record1})
	var done atomic.Int64
	t.together(workers, func(i int) {
		d := a
		if i%2 == 1 {
			d = b
		}
		for range raises {
			t.eventually("a compare-and-set succeeds", t.patience, func() bool {
				r := t.records(d, recordSet)[record1]
				r.Value = append(slices.Clone(r.Value), '|') // unary, and exact
				_, err := d.PutRecord(t.Context(), r)
				if errors.Is(err, backend.ErrConflict) {
					t.pause(rand.N(workers * t.tick())) // or whoever is slower than the others never comes first
				} else if err != nil {
					t.Fatalf("PutRecord: %v, want success or ErrConflict", err)
				}
				return err == nil
			})
			done.Add(1)
		}
	})
	if got := len(t.records(b, recordSet)[record1].Value); int64(got) != done.Load() {
		t.Fatalf("the counter is %d after %d updates", got, done.Load())
	}
}

func recordsDeleteCompares(t *caseT) {
	a, b := t.recordPair()
	first := t.put(a, backend.Record{Key: record1, Value: []byte("first")})
	second := t.put(a, first)
	for _, version := range []string{"", first.Version, second.Version + "0", "1"} {
		if version == second.Version {
			continue
		}
		err := b.DeleteRecord(t.Context(), backend.Record{Key: record1, Version: version})
		if !errors.Is(err, backend.ErrConflict) {
			t.Fatalf("DeleteRecord on version %q: %v, want ErrConflict", version, orSuccess(err))
		}
		t.stored(b, second)
	}
	other := t.put(b, backend.Record{Key: recordSet + "node-2", Value: []byte("other")})
	t.remove(b, second)
	t.noRecord(a, record1)
	t.stored(a, other)
}

func recordsDeleteOfNothingIsNil(t *caseT) {
	a, b := t.recordPair()
	for _, version := range []string{"", "1", "never given"} {
		t.remove(a, backend.Record{Key: record1, Version: version})
	}
	t.noRecord(b, record1)
	for _, ttl := range []bool{false, true} {
		r := backend.Record{Key: record1, Value: []byte("x")}
		if ttl {
			r.TTL = t.ttl()
		}
		r = t.put(a, r)
		if ttl {
			t.expired(a, record1)
		}
		t.remove(a, r)
		t.remove(b, r)
		t.noRecord(b, record1)
	}
}

func recordsEndWithTheContext(t *caseT) {
	a, b := t.recordPair()
	over := t.canceled()
	_, err := a.PutRecord(over, backend.Record{Key: record1, Value: []byte("canceled")})
	t.wraps("PutRecord", err, context.Canceled)
	t.noRecord(b, record1)
	r := t.put(a, backend.Record{Key: record1, Value: []byte("stays")})
	t.wraps("DeleteRecord", a.DeleteRecord(over, r), context.Canceled)
	_, _, err = a.GetRecords(over, recordSet)
	t.wraps("GetRecords", err, context.Canceled)
	t.stored(b, r)
}

func recordsSurviveARestart(t *caseT) {
	a, b := t.recordPair()
	old := t.put(a, backend.Record{Key: record1, Value: []byte("old"), TTL: longRecord})
	old = t.put(a, old)
	gone := t.put(a, backend.Record{Key: recordSet + "gone", Value: []byte("gone")})
	t.remove(a, gone)
	t.cfg.Restart(t)
	err := t.answered("GetRecords", func(ctx context.Context) error {
		_, _, err := b.GetRecords(ctx, recordSet)
		return err
	})
	if err != nil {
		t.Fatalf("GetRecords: %v", err)
	}
	t.stored(b, old)
	again := gone
	again.Version = ""
	if again = t.put(b, again); again.Version == gone.Version {
		t.Fatalf("PutRecord returns version %q again, which it gave before the store was killed", again.Version)
	}
	t.noPut(b, gone)
	t.put(b, old)
}
