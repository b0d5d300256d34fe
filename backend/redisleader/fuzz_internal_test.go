package redisleader

import (
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// tagOf is what a cluster hashes of a key.
func tagOf(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

func FuzzRecordKey(f *testing.F) {
	for _, key := range []string{"nightly", "{}", "}{", `\`, `\{`, `\\(`, "a#1", "a!run/1", "#", "!}", "a}#{", "é/ü"} {
		f.Add(key, 7)
	}
	b := New(nil, nil)
	f.Fuzz(func(t *testing.T, key string, slot int) {
		record := b.recordKey(key)
		if back, ok := b.keyOf(record); back != key || !ok {
			t.Errorf("%q became %q, which reads as %q, %v", key, record, back, ok)
		}
		if back, ok := b.keyOf(key); ok && b.recordKey(back) != key {
			t.Errorf("%q is read as the record of %q", key, back)
		}
		if name, _, _ := strings.Cut(key, "#"); name == key && name != "" && key[0] != '!' {
			of := tagOf(record)
			if slotted := tagOf(b.recordKey(key + "#" + strings.Repeat("1", slot&7))); slotted != of {
				t.Errorf("%q has the tag %q, its slot %q", key, of, slotted)
			}
		}
	})
}

func FuzzDecodeHolder(f *testing.F) {
	f.Add(int64(1764000000000000), int64(1764000000000000), int64(30000000), int64(0), "node", `{"zone":"a"}`, 6)
	f.Add(int64(-1), int64(0), int64(-1), int64(2), "", "{", 5)
	f.Fuzz(func(t *testing.T, fence, since, left, kept int64, owner, metadata string, n int) {
		reply := []any{fence, since, left, kept, owner, metadata}
		if n >= 0 && n < len(reply) {
			if _, err := decodeHolder(reply[:n]); err == nil {
				t.Errorf("a reply of %d elements was accepted", n)
			}
			reply[n] = nil
			if _, err := decodeHolder(reply); err == nil {
				t.Errorf("a reply without element %d was accepted", n)
			}
			return
		}
		h, err := decodeHolder(reply)
		if bad := fence < 0 || since < 0 || left < 0 || kept < 0; bad != (err != nil) {
			t.Fatalf("%v: %+v, %v", reply, h, err)
		}
		if err != nil {
			return
		}
		if h.Fence != uint64(fence) || h.Owner != owner || h.Kept != (kept == 1) {
			t.Errorf("%v: %+v", reply, h)
		}
		if left < int64(1)<<53 && h.Remaining != time.Duration(left)*time.Microsecond || !h.Kept && heldFence(h.Seen) != h.Fence {
			t.Errorf("%v: %+v", reply, h)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add("zone", "a", "", `{"`)
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		for _, s := range []string{k1, v1, k2, v2} {
			if !utf8.ValidString(s) {
				return
			}
		}
		want := map[string]string{k1: v1, k2: v2}
		text, err := encodeMetadata(want)
		if got := decodeMetadata(text); err != nil || !maps.Equal(got, want) {
			t.Errorf("%v became %q, %v, which reads as %v", want, text, err, got)
		}
		decodeMetadata(v1) // must not panic
	})
}
