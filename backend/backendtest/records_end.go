package backendtest

import (
	"time"

	"github.com/goleader/leader/backend"
)

// recordEndCases are about the time for which records are kept.
func recordEndCases() []testCase {
	return []testCase{
		{
			name: "Records_Expire",
			rule: abilityRecords,
			says: "a record whose TTL has passed is not there for any client",
			run:  recordsExpire,
		},
		{
			name: "Records_AreThereUntilTheirEnd",
			rule: abilityRecords,
			says: "a record is there until its TTL has passed",
			run:  recordsAreThereUntilTheirEnd,
		},
		{
			name: "Records_MayBePutAgain",
			rule: abilityRecords,
			says: "an expired record does not exist: it can be created anew, and not be replaced",
			run:  recordsMayBePutAgain,
		},
		{
			name: "Records_StayWithoutATTL",
			rule: abilityRecords,
			says: "a record with a TTL of 0 stays until it is deleted",
			run:  recordsStayWithoutATTL,
		},
		{
			name: "Records_SetTheTTLAnew",
			rule: abilityRecords,
			says: "each put sets the TTL anew, to a longer one, a shorter one, or none",
			run:  recordsSetTheTTLAnew,
		},
		{
			name: "Records_ShowWhatIsLeft",
			rule: abilityRecords,
			says: "GetRecords shows the TTL that is left, and 0 for a record without one",
			run:  recordsShowWhatIsLeft,
		},
		{
			name: "Records_TellTheTime",
			rule: abilityRecords,
			says: "the time in an answer of GetRecords is zero, or a plausible one that moves as time does",
			run:  recordsTellTheTime,
		},
	}
}

// expired waits until a record is no longer there.
func (t *caseT) expired(d backend.Records, key string) {
	t.Helper()
	t.eventually("GetRecords no longer has an expired record", t.ttl()+t.grace(), func() bool {
		_, ok := t.records(d, recordSet)[key]
		return !ok
	})
}

func recordsExpire(t *caseT) {
	a, b := t.recordPair()
	stays := t.put(a, backend.Record{Key: recordSet + "stays", Value: []byte("stays"), TTL: longRecord})
	t.put(a, backend.Record{Key: record1, Value: []byte("ends"), TTL: t.ttl()})
	t.expired(b, record1)
	t.expired(a, record1)
	t.stored(b, stays)
}

func recordsAreThereUntilTheirEnd(t *caseT) {
	a, b := t.recordPair()
	t.conclusive(func(trial string) bool {
		sent := time.Now()
		sure := sent.Add(t.ttl())
		r := t.put(a, backend.Record{Key: recordSet + trial, Value: []byte("x"), TTL: t.ttl()})
		for {
			_, ok := t.records(b, recordSet)[r.Key]
			now := time.Now()
			switch {
			case !ok && now.Before(sure.Add(-t.cfg.Skew)):
				t.Fatalf("a record with a TTL of %v is gone after %v", t.ttl(), now.Sub(sent))
			case now.After(sent.Add(t.ttl() / 2)):
				return now.Before(sure)
			}
			t.pause(t.tick())
		}
	})
}

func recordsMayBePutAgain(t *caseT) {
	a, b := t.recordPair()
	old := t.put(a, backend.Record{Key: record1, Value: []byte("old"), TTL: t.ttl()})
	t.expired(b, record1)
	t.noPut(a, old)
	t.noRecord(b, record1)
	next := t.put(b, backend.Record{Key: record1, Value: []byte("next"), TTL: longRecord})
	t.noPut(a, old)
	t.stored(a, next)
}

func recordsStayWithoutATTL(t *caseT) {
	a, b := t.recordPair()
	r := t.put(a, backend.Record{Key: record1, Value: []byte("stays")})
	t.put(a, backend.Record{Key: recordSet + "ends", TTL: t.ttl()})
	t.expired(b, recordSet+"ends")
	t.stored(a, r)
	t.stored(b, r)
}

func recordsSetTheTTLAnew(t *caseT) {
	a, b := t.recordPair()
	t.conclusive(func(trial string) bool {
		sent := time.Now()
		put := func(id string, ttl time.Duration) backend.Record {
			t.Helper()
			return t.put(a, backend.Record{Key: recordSet + trial + "-" + id, Value: []byte(id), TTL: ttl})
		}
		longer, endless := put("longer", t.ttl()), put("endless", t.ttl())
		shorter, ending := put("shorter", longRecord), put("ending", 0)
		if time.Now().After(sent.Add(t.ttl() / 2)) {
			return false // one of them may have expired before the next put arrives
		}
		longer.TTL, endless.TTL, shorter.TTL, ending.TTL = longRecord, 0, t.ttl(), t.ttl()
		for _, r := range []*backend.Record{&longer, &endless} {
			version, err := b.PutRecord(t.Context(), *r)
			if err != nil && time.Now().After(sent.Add(t.ttl())) {
				return false
			}
			if err != nil {
				t.Fatalf("PutRecord: %v, want success", err)
			}
			r.Version = version
		}
		t.put(b, shorter)
		t.put(b, ending)
		t.expired(a, shorter.Key)
		t.expired(a, ending.Key)
		t.pauseUntil(sent.Add(t.ttl() + t.limits.Late))
		t.stored(a, longer)
		t.stored(a, endless)
		return true
	})
}

func recordsShowWhatIsLeft(t *caseT) {
	a, b := t.recordPair()
	sent := time.Now()
	r := t.put(a, backend.Record{Key: record1, Value: []byte("x"), TTL: longRecord})
	for range 3 {
		left := t.stored(b, r).TTL
		if left == 0 {
			t.Fatal("GetRecords shows no TTL, and the record has one")
		}
		t.plausible(left, sent, longRecord)
		t.pause(t.tick())
	}
	r.TTL = 0
	r = t.put(a, r)
	if left := t.stored(b, r).TTL; left != 0 {
		t.Errorf("GetRecords shows a TTL of %v, and the record has none", left)
	}
}

// recordsTellTheTime allows a clock that counts seconds.
func recordsTellTheTime(t *caseT) {
	a, b := t.recordPair()
	const grain = time.Second
	ask := func(d backend.Records) (now, before, after time.Time) {
		t.Helper()
		before = time.Now()
		_, now, err := d.GetRecords(t.Context(), recordSet)
		if err != nil {
			t.Fatalf("GetRecords: %v", err)
		}
		return now, before, time.Now()
	}
	first, before1, after1 := ask(a)
	if first.IsZero() {
		t.Log("the store has no clock, or does not tell it")
		return
	}
	if first.Year() < 2020 || first.Year() > 2200 {
		t.Fatalf("the store's time is %v", first)
	}
	t.eventually("the store's time moves", grain+t.grace(), func() bool {
		for _, d := range []backend.Records{b, a} { // of one store
			now, before, after := ask(d)
			least, most := before.Sub(after1)-grain-t.cfg.Skew, after.Sub(before1)+grain+t.cfg.Skew
			if moved := now.Sub(first); moved < least || moved > most {
				t.Fatalf("the store's time moved by %v, want %v to %v", moved, least, most)
			}
			if !now.After(first) {
				return false
			}
		}
		return true
	})
}
