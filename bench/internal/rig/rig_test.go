package rig

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/bench/internal/contest"
)

func TestRedis_EveryOpCanBeRepeated(t *testing.T) {
	r := NewRedis(t)
	for name, op := range map[string]Op{
		"run": r.Run(t), "floor": r.Floor(t), "setnx": r.Setnx(), "skip": r.Skip(t), "skip floor": r.SkipFloor(t),
		"group": r.GroupRun(t, 3), "strategic": r.StrategicRun(t), "run key": r.RunKeyRun(t), "listing": r.Listing(t, 20),
		"redsync": r.Redsync(), "redislock": r.Redislock(), "rueidislock": r.Rueidislock(t),
	} {
		t.Run(name, func(t *testing.T) { repeat(t, op) })
	}
}

func TestLocal_EveryOpCanBeRepeated(t *testing.T) {
	for name, op := range map[string]Op{"run": LocalRun(t), "group": LocalGroupRun(t, 3), "cancel cause": CancelCause} {
		t.Run(name, func(t *testing.T) { repeat(t, op) })
	}
}

func TestSQLite_EveryOpCanBeRepeated(t *testing.T) {
	s := NewSQLite(t)
	for name, op := range map[string]Op{
		"run": s.Run(t), "floor": s.Floor(t), "statements": s.Statements(t), "skip": s.Skip(t), "skip floor": s.SkipFloor(t),
	} {
		t.Run(name, func(t *testing.T) { repeat(t, op) })
	}
}

func TestHandoff_EveryWayCanBeRepeated(t *testing.T) {
	r := NewRedis(t)
	for name, way := range map[string]contest.Way{
		"redis": r.Handoff(t), "raw": r.RawHandoff(t), "rueidislock": r.RueidislockHandoff(t), "redsync": r.RedsyncHandoff(t),
		"sqlite": NewSQLite(t).Handoff(t),
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				if took, err := way(t.Context()); err != nil || took <= 0 || took > patience {
					t.Fatalf("took %v, %v", took, err)
				}
			}
		})
	}
}

func repeat(t *testing.T, op Op) {
	t.Helper()
	for range 3 {
		if err := op(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRedis_Record_SendsWhatTheDriverSends(t *testing.T) {
	r := NewRedis(t)
	s := r.record(t, "recorded")
	if err := s.acquire.send(t.Context(), r.client, "first"); err != nil {
		t.Fatal(err)
	}
	h, err := r.driver(t, r.client).Inspect(t.Context(), "recorded")
	if err != nil || h.Owner != owner || h.Remaining < lease/2 || h.Remaining > lease {
		t.Errorf("the driver sees %+v, %v", h, err)
	}
	if err := s.acquire.send(t.Context(), r.client, "second"); !errors.Is(err, errRefused) {
		t.Errorf("the second token got %v, want a refusal", err)
	}
	if err := s.release.send(t.Context(), r.client, "first"); err != nil {
		t.Error(err)
	}
}

func TestRedis_Count_TellsTheRequestsOfEach(t *testing.T) {
	r := NewRedis(t)
	for name, c := range map[string]struct {
		count Count
		want  float64
	}{
		"a plain run":      {r.count(t, func(d backend.Driver) Op { return run(newElector(t, d), "counted") }), 2},
		"a preferred node": {r.StrategicRequests(t), 3}, // the listing
		"one that is not":  {r.StrategicSkipRequests(t), 0},
	} {
		if got, err := c.count(t.Context(), 5); err != nil || got != c.want {
			t.Errorf("%s: %v requests each, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestRecorder_KeepsTheCommandsOfPipelines(t *testing.T) {
	var rec recorder
	send := rec.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return nil })
	commands := []redis.Cmder{redis.NewCmd(t.Context(), "ping"), redis.NewCmd(t.Context(), "echo", "text")}
	if err := send(t.Context(), commands); err != nil || rec.count() != 2 {
		t.Errorf("%d commands, %v, want 2", rec.count(), err)
	}
}

func TestSkip_DemandsTheReason(t *testing.T) {
	store := local.New()
	hold(t, newElector(t, store), "held")
	other := newElector(t, store)
	if err := skip(other, "held", leader.Contended)(t.Context()); err != nil {
		t.Error(err)
	}
	for name, reason := range map[string]leader.SkipReason{"held": leader.NotPreferred, "free": leader.Contended} {
		if err := skip(other, name, reason)(t.Context()); err == nil {
			t.Errorf("%s: a skip as %v was seen", name, reason)
		}
	}
}

func TestEach_ReportsAnErrorOfAWorker(t *testing.T) {
	broken := errors.New("broken")
	err := each(100, func(i int) error {
		if i == 50 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	var done [100]bool
	if err := each(100, func(i int) error { done[i] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for i, ok := range done {
		if !ok {
			t.Errorf("%d was left out", i)
		}
	}
}

func TestCommandOf_RefusesOtherCommands(t *testing.T) {
	for _, args := range [][]any{
		nil, {"get", "k", 1}, {"evalsha", "sha", 2, "k"}, {"evalsha", "sha", "1", "k"}, {"evalsha", "sha", 1, 7},
	} {
		if _, err := commandOf(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	c, err := commandOf([]any{"evalsha", "sha", 1, "k", "a", 2})
	if err != nil || c.sha != "sha" || len(c.keys) != 1 || c.keys[0] != "k" || len(c.args) != 2 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestContention_CountsTheRuns(t *testing.T) {
	r := NewRedis(t)
	for name, c := range map[string]Contention{"together": r.ContendTogether(t, 3), "apart": r.ContendApart(t, 3)} {
		t.Run(name, func(t *testing.T) {
			if n, err := c.RunsPerSecond(t.Context(), 50*time.Millisecond); err != nil || n <= 0 {
				t.Errorf("%v runs per second, %v", n, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.ContendApart(t, 1).RunsPerSecond(ctx, 50*time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}
