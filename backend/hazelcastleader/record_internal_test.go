package hazelcastleader

import (
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

func TestRecord_KeepsFieldsOfALaterRelease(t *testing.T) {
	raw := `{"format":1,"fence":7,"token":"T","until":9,"nonce":"N","zone":{"a":[1,2]}}`
	e, err := decode("job", raw)
	if err != nil {
		t.Fatal(err)
	}
	for what, next := range map[string]record{
		"renewed": e.renewed(instant{1 << 40}, time.Second, 0),
		"granted": e.granted(backend.Request{Token: "U", TTL: time.Second}, instant{1 << 40}),
		"freed":   e.freed(),
		"kept":    e.kept(instant{1 << 40}, time.Second),
	} {
		text, err := next.encode()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, `"zone":{"a":[1,2]}`) {
			t.Errorf("%s: %s", what, text)
		}
		if again, err := decode("job", text); err != nil || again.Fence != next.Fence || again.Until != next.Until {
			t.Errorf("%s: %+v, %v", what, again, err)
		}
	}
}

func TestRecord_Unreadable_IsMisconfiguredAndShowsNothing(t *testing.T) {
	for raw, says := range map[string]string{
		`secret`:                                              "invalid",
		`{"fence":7,"nonce":"secret"}`:                        "no format",
		`{"format":2,"of":"secret"}`:                          "has format 2, this release knows 1",
		`{"format":1,"nonce":"secret"}`:                       "missing or out of range",
		`{"format":1,"fence":7,"until":9}`:                    "missing or out of range",
		`{"format":1,"fence":7,"token":"secret","nonce":"N"}`: "missing or out of range",
		`{"format":1,"fence":"secret"}`:                       "cannot unmarshal",
		`{"format":1,"fence":7,"until":-1,"nonce":"secret"}`:  "missing or out of range",
	} {
		_, err := decode("job", raw)
		if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v of kind %v, want it to say %q", raw, err, backend.KindOf(err), says)
		}
	}
}

func TestRecord_NeverEndsEarlierAfterARenewal(t *testing.T) {
	const skew = 5 * time.Second
	at := func(ms, node int64) instant { return instant{(ms-flakeEpoch)<<flakeTimeBits | node} }
	r := record{Until: flakeEpoch + 30_000, Clock: 1}
	if next := r.renewed(at(flakeEpoch+10_000, 1), time.Second, skew); next.Until != r.Until || next.Clock != 1 {
		t.Errorf("by the same clock: %+v", next)
	}
	// By the other clock it may be earlier by the skew, and is then as late still.
	if next := r.renewed(at(flakeEpoch+28_000, 2), time.Second, skew); next.Until != r.Until+5_000 || next.Clock != 2 {
		t.Errorf("by another clock: %+v", next)
	}
	if next := r.renewed(at(flakeEpoch+10_000, 2), time.Second, skew); next.Until != r.Until || next.Clock != 1 {
		t.Errorf("by another clock, of an end that is late enough: %+v", next)
	}
	if next := r.renewed(at(flakeEpoch+10_000, 1), time.Minute, skew); next.Until < flakeEpoch+70_000 {
		t.Errorf("longer: %+v", next)
	}
}

// Whoever reads two clocks in turn has the end moved by what they may differ, but not each time.
func TestRecord_RenewedByTwoClocksInTurn_EndsSoon(t *testing.T) {
	const ttl, skew = 2 * time.Second, 5 * time.Second
	at := func(ms, node int64) instant { return instant{(ms-flakeEpoch)<<flakeTimeBits | node} }
	now := int64(flakeEpoch + 1_000_000)
	r := record{Until: endOf(at(now, 1), ttl), Clock: 1}
	for i := range int64(100) {
		now += 100
		reading := at(now, 1+i%2)
		next := r.renewed(reading, ttl, skew)
		if left := next.left(reading, skew); left < ttl || left > ttl+3*skew {
			t.Fatalf("after %d renewals it lasts for %v", i+1, left)
		}
		if next.Clock == r.Clock && next.Until < r.Until {
			t.Fatalf("it ended at %d, and ends at %d", r.Until, next.Until)
		}
		r = next
	}
	now += (ttl + 3*skew).Milliseconds()
	reading := at(now, r.Clock)
	if r = r.renewed(reading, ttl, skew); r.Until != endOf(reading, ttl) {
		t.Errorf("by one clock again it lasts for %v", r.left(reading, skew))
	}
}

func TestInstant_HasTheTimeTheNodeAndAFence(t *testing.T) {
	at := instant{(1_764_428_983_123-flakeEpoch)<<flakeTimeBits | 5<<flakeNodeBits | 77}
	if at.ms() != 1_764_428_983_123 || at.node() != 77 || at.time().UnixMilli() != at.ms() {
		t.Errorf("ms %d, node %d", at.ms(), at.node())
	}
	if later := (instant{at.id + sameBatch}); later.fence() != at.fence()+1 {
		t.Errorf("fence %d after %d", later.fence(), at.fence())
	}
}

func TestMemory_IsBounded(t *testing.T) {
	var m memory
	for i := range 3 * remembered {
		m.put(strings.Repeat("k", i+1), entry{raw: "x"})
	}
	if len(m.memos) != remembered {
		t.Errorf("%d entries", len(m.memos))
	}
	if _, ok := m.memos[strings.Repeat("k", 3*remembered)]; !ok {
		t.Error("the newest entry is gone")
	}
}

func TestMemory_IsUsedWhereItWasRight(t *testing.T) {
	var m memory
	step := func(what string, put, found string, want bool) {
		t.Helper()
		m.judge("job", entry{raw: found})
		m.put("job", entry{raw: put})
		if e, ok := m.recall("job"); ok != want || ok && e.raw != put {
			t.Errorf("%s: %q, %v, want %v", what, e.raw, ok, want)
		}
		m.forget("job")
		m.judge("job", entry{raw: "held by us"})
		if e, ok := m.recall("job"); ok {
			t.Errorf("%s: %q of a key that this backend has", what, e.raw)
		}
		m.put("job", entry{raw: put})
	}
	step("at first", "a", "", false)
	step("it was right", "b", "a", true)
	step("it was right again", "c", "b", true)
	step("another had the key", "d", "x", false)
	step("and again", "e", "y", false)
	step("it was right", "f", "e", true)
}

func FuzzDecode(f *testing.F) {
	f.Add("job", `{"format":1,"fence":7,"token":"T","until":9,"nonce":"N","zone":1}`)
	f.Add("job", `{"format":1,"fence":7,"metadata":{"a":"b"},"nonce":"N"}`)
	f.Add("job", `{"format":2}`)
	f.Add("a\xffb", `null`)
	f.Fuzz(func(t *testing.T, key, raw string) {
		e, err := decode(key, raw)
		if err != nil {
			if backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("%v of kind %v", err, backend.KindOf(err))
			}
			return
		}
		text, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(key, text)
		if err != nil || again.Fence != e.Fence || again.Token != e.Token || again.Until != e.Until || again.Nonce == e.Nonce {
			t.Errorf("%s became %s, %v", raw, text, err)
		}
	})
}
