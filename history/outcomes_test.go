package history_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
)

func TestRecorder_ARecordIsCompleteHoweverTheRunEnds(t *testing.T) {
	type setting struct {
		ctx    context.Context //nolint:containedctx // of one row
		cancel context.CancelFunc
		store  *local.Backend
		driver backend.Driver
		action leader.Action
		opts   []leader.RunOption
	}
	rows := map[string]struct {
		setUp func(s *setting)
		want  history.Record // its times, fence and ids are checked by rule
		led   bool
	}{
		"success": {
			func(*setting) {}, history.Record{Status: history.Succeeded, Attempts: 1}, true,
		},
		"failure": {
			func(s *setting) { s.action = func(context.Context) error { return fmt.Errorf("b: %w", errAction) } },
			history.Record{Status: history.Failed, Attempts: 1, Error: "b: the action failed"},
			true,
		},
		"failure with a type": {
			func(s *setting) {
				s.action = func(context.Context) error { return fmt.Errorf("b: %w", context.DeadlineExceeded) }
			},
			history.Record{
				Status: history.Failed, Attempts: 1, Error: "b: context deadline exceeded",
				ErrorType: "context.deadlineExceededError",
			},
			true,
		},
		"panic": {
			func(s *setting) { s.action = func(context.Context) error { panic("oh") } },
			history.Record{Status: history.Failed, Attempts: 1, Error: leader.ErrNoReturn.Error()},
			true,
		},
		"end of the goroutine": {
			func(s *setting) { s.action = func(context.Context) error { runtime.Goexit(); return nil } },
			history.Record{Status: history.Failed, Attempts: 1, Error: leader.ErrNoReturn.Error()},
			true,
		},
		"loss": {
			func(s *setting) {
				s.opts = []leader.RunOption{leader.WithoutAutoExtend()}
				s.action = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			},
			history.Record{
				Status: history.Lost, Attempts: 1, Error: "context canceled", Lost: "lease lost: not renewed in time",
			},
			true,
		},
		"loss that the action did not notice": {
			func(s *setting) {
				s.opts = []leader.RunOption{leader.WithoutAutoExtend()}
				s.action = func(context.Context) error { time.Sleep(time.Hour); return nil }
			},
			history.Record{Status: history.Lost, Attempts: 1, Lost: "lease lost: not renewed in time"},
			true,
		},
		"too long": {
			func(s *setting) {
				s.opts = []leader.RunOption{leader.WithMaxHold(time.Minute)}
				s.action = func(ctx context.Context) error { <-ctx.Done(); return nil }
			},
			history.Record{Status: history.Lost, Attempts: 1, Lost: "lease lost: held longer than allowed"},
			true,
		},
		"release by the action": {
			func(s *setting) {
				s.action = func(ctx context.Context) error {
					l, _ := leader.LeaseFrom(ctx)
					return l.Release(ctx)
				}
			},
			history.Record{Status: history.Succeeded, Attempts: 1, Lost: "lease lost: lease released"},
			true,
		},
		"cancellation": {
			func(s *setting) {
				time.AfterFunc(time.Minute, s.cancel)
				s.action = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			},
			history.Record{Status: history.Canceled, Attempts: 1, Error: "context canceled"},
			true,
		},
		"cancellation that the action masters": {
			func(s *setting) {
				time.AfterFunc(time.Minute, s.cancel)
				s.action = func(ctx context.Context) error { <-ctx.Done(); return nil }
			},
			history.Record{Status: history.Succeeded, Attempts: 1},
			true,
		},
		"cancellation before": {
			func(s *setting) { s.cancel() },
			history.Record{Status: history.Canceled, Error: `leader: acquire "job": context canceled`},
			false,
		},
		"skip": {
			func(s *setting) { occupy(t, s.store) },
			history.Record{Status: history.Skipped, Attempts: 1, Reason: "Contended", Holder: "node-b"},
			false,
		},
		"a store that is down": {
			func(s *setting) { s.driver = broken{s.store} },
			history.Record{
				Status: history.NotRun, Attempts: 1, Error: `leader: acquire "job" (local): connection refused`,
				ErrorType: "*leader.BackendError",
			},
			false,
		},
		"a store that is down, and skipped": {
			func(s *setting) {
				s.driver = broken{s.store}
				s.opts = []leader.RunOption{leader.WithFailureMode(leader.Skip)}
			},
			history.Record{Status: history.Skipped, Attempts: 1, Reason: "BackendFailed"},
			false,
		},
		"a store that is down, and not needed": {
			func(s *setting) {
				s.driver = broken{s.store}
				s.opts = []leader.RunOption{leader.WithFailureMode(leader.FailOpenRun)}
				s.action = func(context.Context) error { return errAction }
			},
			history.Record{Status: history.Failed, Attempts: 1, Unguarded: true, Error: "the action failed"},
			false,
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, m := remembering(t, &history.Options{Node: "process", Metadata: map[string]string{"version": "1"}})
				s := &setting{store: local.New(), action: nothing}
				s.ctx, s.cancel = context.WithCancel(t.Context())
				defer s.cancel()
				s.driver = s.store
				row.setUp(s)
				e := electorOn(t, s.driver, r)
				began := time.Now()
				goes(func() { _, _ = e.RunIfLeader(s.ctx, "job", s.action, s.opts...) })
				drain(t, r)
				list := m.Recent("", 10)
				if len(list) != 1 {
					t.Fatalf("%d records, want 1: %v", len(list), list)
				}
				want := row.want
				want.Name = "job"
				wantRecord(t, list[0], want, began, row.led)
			})
		})
	}
}

// occupy lets node-b hold the lease of the job.
func occupy(t *testing.T, store *local.Backend) {
	t.Helper()
	_, err := store.TryAcquire(t.Context(), backend.Request{Key: "job", Token: "b", Owner: "node-b", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
}

// wantRecord compares a record of a run that began just now; led says whether it had a lease.
func wantRecord(t *testing.T, got, want history.Record, began time.Time, led bool) {
	t.Helper()
	if got.ID == "" || !got.Started.Equal(began) || got.Finished.Before(began) || got.Metadata["version"] != "1" {
		t.Errorf("incomplete: %+v", got)
	}
	if took := got.Finished.Sub(began); led && (got.Acquired.IsZero() || got.Held != took || got.Fence == 0 || got.Key != "job") {
		t.Errorf("took %v, incomplete lease: %+v", took, got)
	}
	if !led && (!got.Acquired.IsZero() || got.Held != 0 || got.Fence != 0 || got.Key != "") {
		t.Errorf("a lease without a lease: %+v", got)
	}
	want.Node = "process"
	if led {
		want.Node = "node-a"
	}
	want.ID, want.Key, want.Fence, want.Metadata = got.ID, got.Key, got.Fence, got.Metadata
	want.Started, want.Acquired, want.Finished, want.Held = got.Started, got.Acquired, got.Finished, got.Held
	want.Waited = got.Waited
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}
