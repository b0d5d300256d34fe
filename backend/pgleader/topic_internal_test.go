package pgleader

import (
	"testing"

	"github.com/goleader/leader/backend"
)

func TestParse_ReadsWhatStatementsSend(t *testing.T) {
	for payload, want := range map[string]news{
		"17 23 a b#0": {table: 17, fence: 23, key: "a b#0"},
		"+ 17 23 a":   {taken: true, table: 17, fence: 23, key: "a"},
		"17 23 ":      {table: 17, fence: 23},
	} {
		if got, ok := parse(payload); !ok || got != want {
			t.Errorf("parse(%q) = %+v, %v", payload, got, ok)
		}
	}
	for _, payload := range []string{"", "a", "+", "17", "17 x a", "17 0 a", "17 -1 a", "x 23 a", "4294967296 1 a", "mark"} {
		if got, ok := parse(payload); ok {
			t.Errorf("parse(%q) = %+v", payload, got)
		}
	}
}

func FuzzParse_AcceptsAnything(f *testing.F) {
	for _, payload := range []string{"", "17 23 a", "+ 17 23 a", "mark", " ", "1 2"} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		if n, ok := parse(payload); ok && n.fence == 0 {
			t.Errorf("parse(%q) = %+v", payload, n)
		}
	})
}

func TestTopic_CoversWhatCannotHaveEndedUnnoticed(t *testing.T) {
	held, kept := new(topic), new(topic)
	covers := func(seen string, want bool) {
		t.Helper()
		if got := held.covers(seen); got != want {
			t.Errorf("covers(%q) = %v with %+v", seen, got, *held)
		}
	}
	covers("10", false)
	held.tell(news{fence: 9})
	covers("10", false) // it may have ended before anybody listened
	held.look(backend.Holder{})
	covers("10", false)
	held.look(backend.Holder{Fence: 10, Remaining: 1})
	covers("10", true)
	covers("9", false)
	covers("10 kept", false)
	covers("", false)
	held.tell(news{fence: 10, taken: true})
	covers("10", true)
	held.tell(news{fence: 10})
	covers("10", false)
	covers("11", true)
	held.tell(news{fence: 12})
	covers("11", false)
	covers("13", true)

	kept.look(backend.Holder{Fence: 10, Kept: true, Remaining: 1})
	if kept.covers("10") || !kept.covers("11") {
		t.Errorf("a kept lease: %+v", kept)
	}
}
