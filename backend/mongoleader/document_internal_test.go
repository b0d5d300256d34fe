package mongoleader

import (
	"maps"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/goleader/leader/backend"
)

func marshal(t testing.TB, d bson.D) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sample is a document of a lease of a minute, of which ten seconds have passed, with other values for some fields.
func sample(changes ...any) bson.D {
	now := time.UnixMilli(1_800_000_000_000)
	d := doc(
		fieldKey, "job", fieldFormat, format, fieldFence, int64(7), fieldToken, "SECRET", fieldSpent, "OLDSECRET",
		fieldOwner, "node-1", fieldMetadata, `{"zone":"a"}`, fieldSince, now.Add(-time.Hour),
		fieldRenewed, now.Add(-10*time.Second), fieldLease, int64(60_000), fieldNow, now)
	for _, change := range doc(changes...) {
		for i := range d {
			if d[i].Key == change.Key {
				d[i].Value = change.Value
			}
		}
	}
	return d
}

func TestDecode_ReadsTheHolder(t *testing.T) {
	d, err := decode(marshal(t, append(sample(), bson.E{Key: "later", Value: 1})))
	if err != nil {
		t.Fatal(err)
	}
	h := d.holder()
	since, metadata := time.UnixMilli(1_800_000_000_000).Add(-time.Hour), map[string]string{"zone": "a"}
	if h.Owner != "node-1" || h.Fence != 7 || h.Kept || h.Remaining != 50*time.Second || h.Seen != "7" ||
		!h.Since.Equal(since) || !maps.Equal(h.Metadata, metadata) {
		t.Errorf("holder %+v", h)
	}
	d, err = decode(marshal(t, sample(fieldToken, "")))
	if err != nil {
		t.Fatal(err)
	}
	if h := d.holder(); !h.Kept || h.Seen == "7" || h.Remaining != 50*time.Second {
		t.Errorf("holder of a kept key: %+v", h)
	}
}

func TestDocument_Left_IsZeroAfterTheEnd(t *testing.T) {
	for lease, want := range map[int64]int64{0: 0, 9_999: 0, 10_000: 0, 10_001: 1, 60_000: 50_000} {
		d, err := decode(marshal(t, sample(fieldLease, lease)))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.left(); got != want {
			t.Errorf("of a lease of %d ms %d are left, want %d", lease, got, want)
		}
	}
}

func TestDecode_ReportsWhatItCannotRead(t *testing.T) {
	tests := map[string]bson.D{
		"no format":     doc(fieldKey, "job"),
		"another major": sample(fieldFormat, 2),
		"format text":   sample(fieldFormat, "1"),
	}
	for _, field := range []string{
		fieldFence, fieldToken, fieldSpent, fieldOwner, fieldMetadata, fieldSince, fieldRenewed, fieldLease,
	} {
		tests[field+" of another type"] = sample(field, true)
	}
	for _, field := range []string{fieldFence, fieldToken, fieldSpent, fieldRenewed, fieldLease} {
		var without bson.D
		for _, e := range sample() {
			if e.Key != field {
				without = append(without, e)
			}
		}
		tests["no "+field] = without
	}
	tests["fence 0"], tests["negative lease"] = sample(fieldFence, int64(0)), sample(fieldLease, int64(-1))
	for name, d := range tests {
		_, err := decode(marshal(t, d))
		if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "job") {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v shows a token", name, err)
		}
	}
}

func TestSameKey_RefusesAnAlikeKey(t *testing.T) {
	for _, found := range []string{"Job", "job ", "jöb"} {
		err := sameKey(marshal(t, sample(fieldKey, found)), "job")
		if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "collation") {
			t.Errorf("%q for \"job\": %v", found, err)
		}
	}
	if err := sameKey(marshal(t, sample()), "job"); err != nil {
		t.Error(err)
	}
}

func TestMillis_NeverShortens(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		time.Nanosecond: 2, time.Millisecond: 2, time.Millisecond + 1: 3, time.Second: 1001, 10 * time.Millisecond: 11,
	} {
		if got := millis(d); got != want {
			t.Errorf("%v is stored as %d ms, want %d", d, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(marshal(f, sample())))
	f.Add([]byte(marshal(f, doc(fieldKey, 1))))
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := decode(raw)
		if err != nil {
			if backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("%v is of kind %v", err, backend.KindOf(err))
			}
			return
		}
		if h := d.holder(); h.Fence == 0 || h.Remaining < 0 {
			t.Errorf("holder %+v", h)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	good := doc(fieldKey, "job!run/1", fieldFormat, format, fieldVersion, "V", fieldValue, []byte("v"),
		fieldRenewed, time.UnixMilli(1), fieldLease, int64(5), fieldNow, time.UnixMilli(3))
	f.Add([]byte(marshal(f, good)))
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, _, err := decodeRecord(raw)
		if err != nil && backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%v is of kind %v", err, backend.KindOf(err))
		}
		if err == nil && r.Version == "" {
			t.Errorf("record %+v", r)
		}
	})
}
