package rig

import (
	"testing"

	"github.com/goleader/leader/bench/internal/contest"
)

func TestRaft_EveryOpCanBeRepeated(t *testing.T) {
	r := NewRaftInMemory(t)
	repeatAll(t, map[string]Op{
		"run": r.Run(t), "forwarded": r.Forwarded(t), "skip": r.Skip(t), "entry": r.Entry(), "verify": r.Verify(),
	}, map[string]contest.Way{"hand-off": r.Handoff(t), "raw": r.RawHandoff()})
}

func TestRaft_OnDisk_CommitsAnEntry(t *testing.T) {
	r := NewRaft(t)
	repeatAll(t, map[string]Op{"run": r.Run(t), "entry": r.Entry()}, nil)
}
