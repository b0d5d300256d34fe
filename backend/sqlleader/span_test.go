package sqlleader

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestStartingWith_HasTheKeysWithThePrefixAndNoOthers(t *testing.T) {
	// Each is at an end of what its neighbours begin with.
	letters := []string{
		" ", "!", "#", "$", "/", "0", "a", "\u007e", "\u00a0", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000",
		"\U0010fffe", "\U0010ffff",
	}
	word := func(most int) string {
		var b strings.Builder
		for range rand.IntN(most + 1) {
			b.WriteString(letters[rand.IntN(len(letters))])
		}
		return b.String()
	}
	has := func(s span, key string) bool { return key >= s.from && key < s.to }
	for range 20_000 {
		prefix, key := word(3), word(5)
		if rand.IntN(2) == 0 {
			key = prefix + key
		}
		if got, want := has(startingWith(prefix), key), strings.HasPrefix(key, prefix); got != want {
			t.Fatalf("startingWith(%q) has %q: %t, want %t", prefix, key, got, want)
		}
		if got, want := has(only(prefix), key), key == prefix; got != want {
			t.Fatalf("only(%q) has %q: %t, want %t", prefix, key, got, want)
		}
	}
	longest := strings.Repeat("\U0010ffff", 400)
	for _, prefix := range []string{"", "\U0010ffff", longest} {
		if !has(startingWith(prefix), longest) {
			t.Errorf("startingWith(%.8q) has not the greatest key", prefix)
		}
	}
	if (span{}).from != "" || has(span{}, "") || has(span{}, "a") {
		t.Error("the zero span has keys")
	}
}
