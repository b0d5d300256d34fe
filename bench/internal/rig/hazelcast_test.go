package rig

import (
	"strings"
	"testing"

	"github.com/goleader/leader/bench/internal/contest"
)

func TestHazelcast_EveryOpCanBeRepeated(t *testing.T) {
	h := NewHazelcast(t)
	repeatAll(t, map[string]Op{
		"run": h.Run(t), "floor": h.Floor(t), "repeat floor": h.RepeatFloor(t), "skip": h.Skip(t),
		"skip floor": h.SkipFloor(t), "put and remove": h.PutRemove(t),
	}, map[string]contest.Way{"hand-off": h.Handoff(t), "raw": h.RawHandoff(t)})
}

// What the floor writes is what the driver writes, but for the token.
func TestHazelcast_TheFloorWritesWhatTheDriverDoes(t *testing.T) {
	term := NewHazelcast(t).record(t, "job")
	for what, value := range map[string]string{"held": term.held, "freed": term.freed} {
		if fresh := term.fresh(value); fresh == value || len(fresh) != len(value) || !strings.Contains(value, `"fence"`) {
			t.Errorf("%s: %s became %s", what, value, fresh)
		}
	}
	if !strings.Contains(term.held, `"token":"`+term.token) || !strings.Contains(term.freed, `"spent":"`+term.token) {
		t.Errorf("held %s, freed %s", term.held, term.freed)
	}
}
