package leader_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goleader/leader"
)

func TestNames_AreOneTo255BytesOfUTF8WithoutControlCharacters(t *testing.T) {
	rows := []struct {
		name string
		rule string // "" if it is allowed
	}{
		{"", "empty"},
		{"a", ""},
		{" a ", ""},
		{"..", ""},
		{"a/b#c!d%e{f}", ""},
		{"日本語", ""},
		{"👑", ""},
		{strings.Repeat("x", 255), ""},
		{strings.Repeat("x", 256), "256 bytes, at most 255"},
		{strings.Repeat("é", 128), "256 bytes, at most 255"},
		{"a\x00", "control"},
		{"a\n", "control"},
		{"a\x7f", "control"},
		{"a\u0085", "control"},
		{"a\xff", "UTF-8"},
		{"\xed\xa0\x80", "UTF-8"},
	}
	for _, row := range rows {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			e := electorOn(t, d)
			_, run := e.RunIfLeader(t.Context(), row.name, nothing)
			_, acquire := e.Acquire(t.Context(), row.name)
			campaign := e.Campaign(t.Context(), row.name, nothing)
			_, state := e.State(t.Context(), row.name)
			var watch error
			for _, err := range e.Watch(t.Context(), row.name) {
				watch = err
				break
			}
			if row.rule == "" {
				if run != nil || state != nil || watch != nil {
					t.Errorf("%q was refused: %v, %v, %v", row.name, run, state, watch)
				}
				return
			}
			for _, err := range []error{run, acquire, campaign, state, watch} {
				wantIs(t, err, leader.ErrInvalidName)
				wantNames(t, err, row.rule)
				if len(err.Error()) > 400 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			}
			if n := d.count(); n != 0 {
				t.Errorf("%d requests for %q, want none", n, row.name)
			}
		})
	}
}

func TestNames_ThatDifferInAnythingAreDifferentLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		for _, e := range []*leader.Single{electorOn(t, d), electorOn(t, d, leader.WithNamespace("a")), electorOn(t, d, leader.WithNamespace("A"))} {
			for _, name := range []string{"a", "A", "a ", "á", "a\u0301", "a/a", "a%sa", "a#1", "a%h1", "a!1"} {
				if _, err := e.Acquire(t.Context(), name); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
		}
	})
}
