package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
)

var (
	errAction = errors.New("the action failed")
	errDown   = backend.WithKind(errors.New("connection refused"), backend.Unavailable)
	silent    = slog.New(slog.DiscardHandler)
)

// broken is a store that cannot be reached.
type broken struct{ *local.Backend }

func (broken) TryAcquire(context.Context, backend.Request) (backend.Lease, error) {
	return nil, errDown
}

// electorOn returns an elector whose runs are recorded.
func electorOn(t *testing.T, d backend.Driver, r *history.Recorder, opts ...leader.Option) *leader.Single {
	t.Helper()
	e, err := leader.New(d, append(opts, leader.WithHooks(r.Hooks()), leader.WithNodeID("node-a"), leader.WithLogger(silent))...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// remembering returns a recorder on a memory; drain waits until that has everything.
func remembering(t *testing.T, opts *history.Options) (*history.Recorder, *history.Memory) {
	t.Helper()
	m := history.NewMemory(0)
	return history.NewRecorder(m, opts), m
}

func drain(t *testing.T, r *history.Recorder) {
	t.Helper()
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func nothing(context.Context) error { return nil }

// settles is an action that lets the recorder do what it can.
func settles(context.Context) error {
	synctest.Wait()
	return nil
}

// goes runs f and survives its panic or its end of the goroutine.
func goes(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	<-done
}

func TestRecorder_RecordsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := remembering(t, nil)
		store := local.New()
		occupy(t, store)
		_, err := electorOn(t, store, r).RunIfLeader(t.Context(), "job", nothing, leader.WithWaitTime(2*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		drain(t, r)
		got := m.Recent("job", 1)[0]
		if got.Waited < time.Hour || got.Acquired.Sub(got.Started) < time.Hour || got.Attempts < 2 || got.Held != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// gate is a sink that lets one call through each time it is opened, and keeps what it was given.
type gate struct {
	open chan struct{}

	mu    sync.Mutex
	calls [][]history.Record
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) Write(_ context.Context, records []history.Record) error {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, append([]history.Record(nil), records...))
	return nil
}

// seen is the statuses of the records of each call.
func (g *gate) seen() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var calls []string
	for _, call := range g.calls {
		var words []string
		for _, r := range call {
			words = append(words, r.Name+" "+r.Status.String())
		}
		calls = append(calls, strings.Join(words, ", "))
	}
	return strings.Join(calls, "; ")
}

func TestRecorder_HandsARunOverWhenItStartsAndWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := history.NewRecorder(g, nil)
		_, err := electorOn(t, local.New(), r).RunIfLeader(t.Context(), "job", func(context.Context) error {
			g.open <- struct{}{}
			synctest.Wait()
			if got := g.seen(); got != "job Running" {
				t.Errorf("in the action: %s", got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		g.open <- struct{}{}
		drain(t, r)
		if got := g.seen(); got != "job Running; job Succeeded" {
			t.Errorf("seen: %s", got)
		}
		if a, b := g.calls[0][0], g.calls[1][0]; a.ID != b.ID || a.Fence != b.Fence || !a.Finished.IsZero() {
			t.Errorf("start %+v, end %+v", a, b)
		}
	})
}

func TestRecorder_HandsARunThatHasEndedOverOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := history.NewRecorder(g, nil)
		e := electorOn(t, local.New(), r)
		for _, name := range []string{"first", "second", "third"} {
			if _, err := e.RunIfLeader(t.Context(), name, settles); err != nil {
				t.Fatal(err)
			}
		}
		close(g.open)
		drain(t, r)
		// The sink was given the first one when it started, and blocked then.
		if got := g.seen(); got != "first Running; first Succeeded, second Succeeded, third Succeeded" {
			t.Errorf("seen: %s", got)
		}
		if s := r.Stats(); s != (history.Stats{Stored: 4}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestRecorder_ASinkThatBlocksForEverCostsRunsNothing(t *testing.T) {
	const runs, capacity = 10_000, 100
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := history.NewRecorder(g, &history.Options{Capacity: capacity, Logger: silent})
		e := electorOn(t, local.New(), r)
		long := errors.New(strings.Repeat("long ", 10_000))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		for i := range runs {
			result, err := e.RunIfLeader(t.Context(), "job", func(ctx context.Context) error {
				if i == 0 {
					return errors.Join(settles(ctx), long) // from now on the sink blocks
				}
				return fmt.Errorf("%w", long)
			})
			if err != nil || result.Outcome != leader.ActionFailed {
				t.Fatal(result, err)
			}
		}
		// In a bubble time passes only while everybody waits.
		if took := time.Since(began); took != 0 {
			t.Errorf("the runs waited for %v", took)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
			t.Errorf("%d bytes are kept", grown)
		}
		// The start of a run is in the sink, so that its end waits.
		if s := r.Stats(); s != (history.Stats{Waiting: capacity, Dropped: runs - capacity}) {
			t.Errorf("%+v", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := r.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "100 waiting records dropped") {
			t.Errorf("Close: %v", err)
		}
		if s := r.Stats(); s != (history.Stats{Dropped: runs}) {
			t.Errorf("closed: %+v", s)
		}
		close(g.open)
	})
}

// faulty is a sink that does as it is told, for each call from 1 on.
type faulty struct {
	answer func(ctx context.Context, n int) error

	mu    sync.Mutex
	calls []time.Time
}

func (f *faulty) Write(ctx context.Context, _ []history.Record) error {
	f.mu.Lock()
	f.calls = append(f.calls, time.Now())
	n := len(f.calls)
	f.mu.Unlock()
	return f.answer(ctx, n)
}

func TestRecorder_ASinkThatFailsForEverCostsRunsNothing(t *testing.T) {
	const runs = 1000
	answers := map[string]func(ctx context.Context, n int) error{
		"it answers an error": func(context.Context, int) error { return errDown },
		"it panics":           func(context.Context, int) error { panic("broken") },
		"it times out":        func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := history.NewRecorder(&faulty{answer: answer}, &history.Options{
					Capacity: 50, Logger: silent, Omit: []history.Status{history.Running},
				})
				e := electorOn(t, local.New(), r)
				began := time.Now()
				for range runs {
					if result, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil || !result.OK() {
						t.Fatal(result, err)
					}
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("the runs waited for %v", took)
				}
				drain(t, r)
				s := r.Stats()
				if s.Stored != 0 || s.Waiting != 0 || s.Refused == 0 || s.Refused+s.Dropped != runs {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestRecorder_TriesAgainBeforeItCountsARecordAsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{answer: func(_ context.Context, n int) error {
			if n < 3 {
				return errDown
			}
			return nil
		}}
		r := history.NewRecorder(f, &history.Options{Omit: []history.Status{history.Running}})
		began := time.Now()
		if _, err := electorOn(t, local.New(), r).RunIfLeader(t.Context(), "job", nothing); err != nil {
			t.Fatal(err)
		}
		drain(t, r)
		if s := r.Stats(); s != (history.Stats{Stored: 1}) {
			t.Errorf("%+v", s)
		}
		if took := f.calls[2].Sub(began); len(f.calls) != 3 || took != 1100*time.Millisecond {
			t.Errorf("%d calls, the third after %v", len(f.calls), took)
		}
	})
}

func TestRecorder_WarnsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := &faulty{answer: func(context.Context, int) error { return errDown }}
		r := history.NewRecorder(f, &history.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		e := electorOn(t, local.New(), r)
		for range 12 {
			if _, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		drain(t, r)
		if n := strings.Count(log.String(), "history is not stored"); n != 2 {
			t.Errorf("%d warnings in two minutes:\n%s", n, &log)
		}
	})
}

func TestRecorder_WarnsOfASinkThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		g := newGate()
		r := history.NewRecorder(g, &history.Options{Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if _, err := electorOn(t, local.New(), r).RunIfLeader(t.Context(), "job", nothing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "does not return"); n != 1 {
			t.Errorf("%d warnings:\n%s", n, &log)
		}
		close(g.open)
		drain(t, r)
	})
}

func TestRecorder_Close_StoresWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &faulty{answer: func(context.Context, int) error { time.Sleep(time.Second); return nil }}
		r := history.NewRecorder(slow, &history.Options{Batch: 2, Omit: []history.Status{history.Running}})
		e := electorOn(t, local.New(), r)
		for range 9 {
			if _, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil {
				t.Fatal(err)
			}
		}
		drain(t, r)
		drain(t, r)
		if s := r.Stats(); s != (history.Stats{Stored: 9}) {
			t.Errorf("%+v", s)
		}
		if result, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil || !result.OK() {
			t.Error(result, err)
		}
		if s := r.Stats(); s != (history.Stats{Stored: 9, Dropped: 1}) {
			t.Errorf("after Close: %+v", s)
		}
	})
}

func TestRecorder_Close_CancelsTheSinkWhenItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &faulty{answer: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		r := history.NewRecorder(stuck, &history.Options{Timeout: time.Hour, Logger: silent})
		e := electorOn(t, local.New(), r)
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error {
			synctest.Wait()
			cancel(cause)
			if err := r.Close(ctx); !errors.Is(err, cause) {
				t.Errorf("Close: %v", err)
			}
			synctest.Wait()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Stats(); s != (history.Stats{Refused: 1, Dropped: 1}) || len(stuck.calls) != 1 {
			t.Errorf("%+v after %d calls", s, len(stuck.calls))
		}
	})
}

func TestRecorder_Close_ForgetsNoRunThatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := history.NewRecorder(g, &history.Options{Logger: silent})
		e := electorOn(t, local.New(), r)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := e.RunIfLeader(t.Context(), "first", func(runCtx context.Context) error {
			synctest.Wait() // now the sink has its start
			_, err := e.RunIfLeader(runCtx, "second", func(context.Context) error {
				if err := r.Close(ctx); !errors.Is(err, context.Canceled) { // while its start waits
					t.Errorf("Close: %v", err)
				}
				return nil
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Stats(); s != (history.Stats{Dropped: 2}) {
			t.Errorf("%+v", s)
		}
		close(g.open)
	})
}

func TestRecorder_OmitsWhatIsNotWanted(t *testing.T) {
	r, m := remembering(t, &history.Options{Omit: []history.Status{history.Running, history.Skipped, history.Succeeded, 99}})
	store := local.New()
	e := electorOn(t, store, r)
	for _, action := range []leader.Action{nothing, func(context.Context) error { return errAction }} {
		if _, err := e.RunIfLeader(t.Context(), "job", action); err != nil {
			t.Fatal(err)
		}
	}
	occupy(t, store)
	if result, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil || result.Outcome != leader.Skipped {
		t.Fatal(result, err)
	}
	drain(t, r)
	if list := m.Recent("", 10); len(list) != 1 || list[0].Status != history.Failed {
		t.Errorf("%v", list)
	}
	if s := r.Stats(); s != (history.Stats{Stored: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestRecorder_RecordsARunToItsEndOnceItsStartIs(t *testing.T) {
	r, m := remembering(t, &history.Options{Omit: []history.Status{history.Succeeded}})
	if _, err := electorOn(t, local.New(), r).RunIfLeader(t.Context(), "job", nothing); err != nil {
		t.Fatal(err)
	}
	drain(t, r)
	if list := m.Recent("", 10); len(list) != 1 || list[0].Status != history.Succeeded {
		t.Errorf("%v", list)
	}
}

func TestRecorder_KeepsNestedLeasesApart(t *testing.T) {
	synctest.Test(t, keepsNestedLeasesApart)
}

func keepsNestedLeasesApart(t *testing.T) {
	g := newGate()
	close(g.open)
	r := history.NewRecorder(g, nil)
	store := local.New()
	outer, inner := electorOn(t, store, r), electorOn(t, store, r, leader.WithNamespace("inner"))
	_, err := outer.RunIfLeader(t.Context(), "job", func(ctx context.Context) error {
		for _, name := range []string{"job", "other"} {
			l, err := inner.Acquire(ctx, name)
			if err != nil {
				return err
			}
			synctest.Wait() // the sink would be given what is recorded of it
			if err := l.Release(ctx); err != nil {
				return err
			}
		}
		_, err := inner.RunIfLeader(ctx, "job", func(context.Context) error { return errAction })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	drain(t, r)
	keys, ends := map[string]string{}, map[string]history.Status{}
	for _, call := range g.calls {
		for _, record := range call {
			if key, ok := keys[record.ID]; ok && key != record.Key {
				t.Errorf("a run of %q became one of %q", key, record.Key)
			}
			keys[record.ID], ends[record.Key] = record.Key, record.Status
		}
	}
	want := map[string]history.Status{"job": history.Succeeded, "inner/job": history.Failed}
	if len(keys) != 2 || !maps.Equal(ends, want) {
		t.Errorf("%v, want %v", ends, want)
	}
}

func TestRecorder_RecordsEveryTermOfACampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := remembering(t, nil)
		terms := 0
		err := electorOn(t, local.New(), r).Campaign(t.Context(), "job", func(ctx context.Context) error {
			if terms++; terms < 3 {
				<-ctx.Done()
				return nil
			}
			return errAction
		}, leader.WithoutAutoExtend())
		if !errors.Is(err, errAction) {
			t.Fatal(err)
		}
		drain(t, r)
		list := m.Recent("job", 10)
		if len(list) != 3 || list[0].Status != history.Failed || list[1].Status != history.Lost || list[2].Status != history.Lost {
			t.Fatalf("%v", list)
		}
		if list[0].Fence <= list[1].Fence || list[1].Fence <= list[2].Fence {
			t.Errorf("fences %v", list)
		}
	})
}

func TestRecorder_SurvivesAHookThatForgetsItsContext(t *testing.T) {
	r, m := remembering(t, &history.Options{Node: "process"})
	forgets := leader.Hooks{RunStarted: func(context.Context, string) context.Context { return t.Context() }}
	e := electorOn(t, local.New(), history.NewRecorder(history.NewMemory(0), nil),
		leader.WithHooks(leader.JoinHooks(r.Hooks(), forgets)))
	if _, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil {
		t.Fatal(err)
	}
	drain(t, r)
	list := m.Recent("job", 10)
	if len(list) != 1 || list[0].Status != history.Succeeded || list[0].Fence == 0 || list[0].Node != "node-a" {
		t.Errorf("%+v", list)
	}
}

func TestRecorder_ManyRunsAtOnce_ConcurrentSafe(t *testing.T) {
	const workers, each = 8, 200
	r, m := remembering(t, &history.Options{Capacity: 2 * workers * each})
	e := electorOn(t, local.New(), r)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range each {
				if _, err := e.RunIfLeader(t.Context(), fmt.Sprint("job-", i), nothing); err != nil {
					t.Error(err)
				}
				r.Stats()
			}
		})
	}
	wg.Wait()
	drain(t, r)
	if s := r.Stats(); s.Stored < workers*each || s.Dropped+s.Refused > 0 || s.Waiting > 0 {
		t.Errorf("%+v", s)
	}
	for _, record := range m.Recent("", workers*each) {
		if record.Status != history.Succeeded {
			t.Errorf("%v", record)
		}
	}
}
