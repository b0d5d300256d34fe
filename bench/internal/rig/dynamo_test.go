package rig

import (
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/bench/internal/contest"
)

func TestDynamo_EveryOpCanBeRepeated(t *testing.T) {
	d := NewDynamo(t)
	repeatAll(t, map[string]Op{
		"run": d.Run(t), "floor": d.Floor(t), "skip": d.Skip(t), "skip floor": d.SkipFloor(t), "naive": d.Naive(t),
	}, map[string]contest.Way{"hand-off": d.Handoff(t)})
}

// What the raw client writes has to be what the driver would read.
func TestDynamo_Record_SendsWhatTheDriverSends(t *testing.T) {
	d := NewDynamo(t)
	sent := d.record(t, "recorded", func(b backend.Driver, req backend.Request) (uint64, error) {
		l, err := b.TryAcquire(t.Context(), req)
		if err != nil {
			return 0, err
		}
		return l.Fence(), l.Release(t.Context(), 0)
	})
	if len(sent) != 2 {
		t.Fatalf("%d requests, want 2", len(sent))
	}
	if _, err := sent[0].send(t.Context(), d.client, "first", ""); err != nil {
		t.Fatal(err)
	}
	h, err := d.driver(d.client).Inspect(t.Context(), "recorded")
	if err != nil || h.Owner != owner || h.Fence == 0 {
		t.Errorf("the driver sees %+v, %v", h, err)
	}
	if _, err := sent[0].send(t.Context(), d.client, "second", ""); err == nil {
		t.Error("the second token got the key")
	}
}
