package sqliteleader_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestBackend_TellsSimilarNamesApart(t *testing.T) {
	b := open(t, newPath(t))
	names := []string{
		"job", "Job", "job ", " job", "jöb", "jo\u0308b", "job#0", "job#00", "job!x/1", "'; DROP TABLE leader_leases; --",
		"1", "1.0", "01", "null", "%", "_", strings.Repeat("x", 1599), strings.Repeat("x", 1600),
	}
	for _, name := range names {
		acquire(t, b, request(name, lasting))
	}
	for _, name := range names {
		wantHeld(t, b, name)
	}
}

func FuzzBackend_NamesComeBack(f *testing.F) {
	for _, name := range []string{"a", "ä ", "日本", "a'b\"c", "#!/%", "\u2028", strings.Repeat("é", 800)} {
		f.Add(name, "node")
	}
	b := open(f, newPath(f))
	f.Fuzz(func(t *testing.T, name, owner string) {
		if !utf8.ValidString(name) || name == "" || len(name) > 1600 || strings.ContainsFunc(name, unicode.IsControl) ||
			!utf8.ValidString(owner) || strings.ContainsFunc(owner, unicode.IsControl) {
			t.Skip("not a name")
		}
		req := request(name, lasting)
		req.Owner, req.Metadata = owner, map[string]string{name: owner}
		l := acquire(t, b, req)
		h := inspect(t, b, name)
		if h.Owner != owner || h.Fence != l.Fence() || h.Metadata[name] != owner {
			t.Errorf("holder of %q = %+v", name, h)
		}
		if h := inspect(t, b, name+" "); !h.Free() {
			t.Errorf("%q and %q are one", name, name+" ")
		}
		release(t, l, 0)
		if h := inspect(t, b, name); !h.Free() {
			t.Errorf("after release: %+v", h)
		}
	})
}
