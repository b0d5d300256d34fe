package dynamoleader

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlaceOf_IsInjective(t *testing.T) {
	long := strings.Repeat("k", longest)
	keys := []string{
		"a", "b", "a#1", "a#12", "a!b", "a!b/c", "a!b/c#1", "a#1!b/c", "#", "#1", "!", "!b/c", "##", "a#", "a!", "a~b", "lease",
		"a#" + long, "a#" + long + "x", "a#" + long + "y", "a!" + long, "a!b/" + long, "a!b/" + strings.Repeat("日", 500),
		"a#" + long[:longest-len("lease#")], "a#" + long[:longest-len("lease#")+1], "record", long, long + "x",
	}
	seen := map[place]string{}
	for _, key := range keys {
		for kind, p := range map[string]place{"lease": leasePlace(key), "record": recordPlace(key)} {
			what := kind + " " + key
			if other, ok := seen[p]; ok {
				t.Errorf("%.40q and %.40q are both at %v", what, other, p)
			}
			seen[p] = what
			if p.name == "" || p.part == "" || len(p.name) > 2048 || len(p.part) > 1024 || !utf8.ValidString(p.part) {
				t.Errorf("%.40q is at %v", what, p)
			}
		}
	}
}

func FuzzPlaceOf_GivesTheKeyBack(f *testing.F) {
	for _, key := range []string{"nightly", "nightly#3", "nightly!candidate/web-1", "#", "a~b"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if key == "" || len(key) > 1600 || !utf8.ValidString(key) {
			t.Skip()
		}
		p := leasePlace(key)
		if len(leasePart+key) <= longest && p.name+strings.TrimPrefix(p.part, leasePart) != key {
			t.Errorf("%q is at %v", key, p)
		}
		if len(p.part) > 1024 || p.name == "" {
			t.Errorf("%q is at %v", key, p)
		}
	})
}
