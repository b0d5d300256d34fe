package k8sleader

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestObjectName_KeepsSubdomains(t *testing.T) {
	for _, name := range []string{"a", "nightly-report", "a.b.c", "0", strings.Repeat("a", 253)} {
		if got := objectName(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
	for _, key := range []string{"A", "", "a.", "-a", "a_b", "a#0", "a..b", strings.Repeat("a", 254), objectName("A"), "日本"} {
		if got := objectName(key); got == key {
			t.Errorf("%q is its own name", key)
		}
	}
}

func FuzzObjectName(f *testing.F) {
	for _, key := range []string{"a", "A", "a b", "job#0", "job!run/1", "日本", strings.Repeat("k", 1600), "x.h-" + strings.Repeat("0", 32)} {
		f.Add(key, key+"a")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		first, second := objectName(a), objectName(b)
		if wrong := validation.IsDNS1123Subdomain(first); len(wrong) > 0 {
			t.Errorf("%q became %q: %q", a, first, wrong)
		}
		if a != b && first == second {
			t.Errorf("%q and %q are both %q", a, b, first)
		}
		if wrong := validation.IsValidLabelValue(hashOf(a)); len(wrong) > 0 {
			t.Errorf("%q: %q", hashOf(a), wrong)
		}
		if record := recordName(a); record == first || record == second || len(validation.IsDNS1123Subdomain(record)) > 0 {
			t.Errorf("the record of %q is %q", a, record)
		}
	})
}
