package leader

import (
	"strings"
	"testing"
)

func TestKeyOf_KeepsPlainNamesReadable(t *testing.T) {
	rows := []struct{ namespace, name, want string }{
		{"", "nightly-report", "nightly-report"},
		{"team a", "nightly-report", "team a/nightly-report"},
		{"", "a/b", "a%sb"},
		{"a/b", "c", "a%sb/c"},
		{"", "100%#1!", "100%p%h1%e"},
		{"", "%s", "%ps"},
	}
	for _, row := range rows {
		if got := keyOf(row.namespace, row.name); got != row.want {
			t.Errorf("keyOf(%q, %q) = %q, want %q", row.namespace, row.name, got, row.want)
		}
	}
}

func FuzzKeyOf_IsInjective(f *testing.F) {
	for _, seed := range [][4]string{
		{"", "a/b", "a", "b"},
		{"a", "b/c", "a/b", "c"},
		{"", "a%sb", "", "a/b"},
		{"", "a#1", "", "a%h1"},
		{"", "a!k/i", "a!k", "i"},
		{"%", "s", "", "%s"},
		{"/", "/", "", "//"},
		{"", "%%", "%", "%"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, namespace1, name1, namespace2, name2 string) {
		if name1 == "" || name2 == "" || len(namespace1)+len(name1)+len(namespace2)+len(name2) > 4*maxName {
			t.Skip()
		}
		one, two := keyOf(namespace1, name1), keyOf(namespace2, name2)
		if same := namespace1 == namespace2 && name1 == name2; (one == two) != same {
			t.Errorf("(%q, %q) has key %q, (%q, %q) has %q", namespace1, name1, one, namespace2, name2, two)
		}
		if strings.ContainsAny(one, "#!") {
			t.Errorf("key %q of (%q, %q) could be that of a slot or record", one, namespace1, name1)
		}
		if len(namespace1) <= maxName && len(name1) <= maxName && len(one) > 1600 {
			t.Errorf("key of %d bytes", len(one))
		}
	})
}
