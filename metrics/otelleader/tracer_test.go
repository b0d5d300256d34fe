package otelleader_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics/otelleader"
)

// recorded returns a tracer and what it has recorded.
func recorded() (*otelleader.Tracer, *trace.TracerProvider, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	p := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	return otelleader.NewTracer(p), p, spans
}

// events are the names of a span's events.
func events(s trace.ReadOnlySpan) string {
	var names []string
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return strings.Join(slices.Compact(names), ", ")
}

func attributes(list []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(list))
	for _, a := range list {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// links are where a span's links lead, by the fence they tell.
func links(s trace.ReadOnlySpan) map[string]trace.Link {
	m := make(map[string]trace.Link)
	for _, l := range s.Links() {
		why, _ := attributes(l.Attributes)["leader.link"].(string)
		m[why] = l
	}
	return m
}

func TestTracer_MakesASpanOfARun(t *testing.T) {
	rows := map[string]struct {
		script         func(s *store)
		action         leader.Action
		opts           []leader.RunOption
		events         string
		mayCome        string // an event more that comes before the end or after it
		outcome        string
		status         codes.Code
		withoutRelease bool
	}{
		"a quick run": {
			action: nothing, events: "acquired, released", outcome: "elected ", status: codes.Unset,
		},
		"a long run": {
			action: works(time.Minute), events: "acquired, renewed, released", outcome: "elected ", status: codes.Unset,
		},
		"a failing action": {
			action: func(context.Context) error { return errAction },
			events: "acquired, released, exception", outcome: "action_failed ", status: codes.Error,
		},
		"a lease that another took": {
			script: func(s *store) { s.renew = backend.ErrLost }, action: works(10 * time.Second),
			events: "acquired, lost, exception", outcome: "elected lost", status: codes.Error,
		},
		"a lease that cannot be renewed": {
			script: func(s *store) { s.renew = errDown }, action: func(ctx context.Context) error { <-ctx.Done(); return nil },
			events: "acquired, renewal failed, lost, exception", mayCome: "released",
			outcome: "elected lost", status: codes.Error,
		},
		"a release that fails": {
			script: func(s *store) { s.release = errDown }, action: nothing,
			events: "acquired, release failed", outcome: "elected ", status: codes.Unset,
		},
		"a store that is down": {
			script: func(s *store) { s.acquire = errDown }, action: nothing,
			events: "exception", outcome: "not_run unavailable", status: codes.Error,
		},
		"a lease that another holds": {
			script: func(s *store) { s.acquire = backend.ErrHeld }, action: nothing,
			events: "", outcome: "skipped contended", status: codes.Unset,
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				if row.script != nil {
					row.script(s)
				}
				tracer, _, spans := recorded()
				_, _ = elector(t, s, tracer.Hooks()).RunIfLeader(t.Context(), "job", row.action, row.opts...)
				time.Sleep(time.Minute) // what comes later has come
				ended := spans.Ended()
				if len(ended) != 1 || ended[0].Name() != "leader.run" {
					t.Fatalf("spans %v, want one of a run", ended)
				}
				span := ended[0]
				certain := slices.DeleteFunc(strings.Split(events(span), ", "), func(e string) bool { return e == row.mayCome })
				if got := strings.Join(certain, ", "); got != row.events {
					t.Errorf("events %s, want %s", got, row.events)
				}
				attrs := attributes(span.Attributes())
				reason, _ := attrs["leader.reason"].(string)
				if got := attrs["leader.outcome"].(string) + " " + reason; got != row.outcome {
					t.Errorf("outcome %q, want %q", got, row.outcome)
				}
				if span.Status().Code != row.status {
					t.Errorf("status %v, want %v", span.Status(), row.status)
				}
			})
		})
	}
}

func TestTracer_TellsTheFactsOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, _, spans := recorded()
		r, err := elector(t, local.New(), tracer.Hooks()).RunIfLeader(t.Context(), "job", works(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		attrs := attributes(spans.Ended()[0].Attributes())
		renewals, _ := attrs["leader.renewals"].(int64)
		if renewals < 3 || renewals > 6 {
			t.Errorf("%d renewals in half a minute", renewals)
		}
		want := map[string]any{
			"leader.name": "job", "leader.node": "node", "leader.fence": int64(r.Lease.Fence),
			"leader.outcome": "elected", "leader.renewals": renewals,
		}
		if !maps.Equal(attrs, want) {
			t.Errorf("attributes %v, want %v", attrs, want)
		}
	})
}

func TestTracer_TheActionRunsInsideOfTheSpan(t *testing.T) {
	tracer, p, spans := recorded()
	own := p.Tracer("test")
	ctx, around := own.Start(t.Context(), "around")
	_, err := elector(t, local.New(), tracer.Hooks()).RunIfLeader(ctx, "job", func(ctx context.Context) error {
		_, span := own.Start(ctx, "inside")
		span.End()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	inside, run := spans.Ended()[0], spans.Ended()[1]
	if inside.Parent().SpanID() != run.SpanContext().SpanID() {
		t.Errorf("the action's span has the parent %v, want that of the run", inside.Parent())
	}
	if run.Parent().SpanID() != around.SpanContext().SpanID() {
		t.Errorf("the run's span has the parent %v, want that around it", run.Parent())
	}
}

func TestTracer_ALongTermKeepsItsAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, _, spans := recorded()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := elector(t, local.New(), tracer.Hooks()).Campaign(ctx, "service", func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		span := spans.Ended()[0]
		if got, want := events(span), "acquired, renewed, released"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		if n := len(span.Events()); n != otelleader.MaxRenewals+2 {
			t.Errorf("%d events, want %d renewals, the acquisition and the release", n, otelleader.MaxRenewals)
		}
		if n, _ := attributes(span.Attributes())["leader.renewals"].(int64); n < 400 {
			t.Errorf("%d renewals are counted in an hour", n)
		}
		if code := span.Status().Code; code != codes.Unset {
			t.Errorf("status %v of a term that ended as its caller wanted", code)
		}
	})
}

func TestTracer_ALeaseAcquiredByHandIsToldToTheSpanAroundIt(t *testing.T) {
	tracer, p, spans := recorded()
	e := elector(t, local.New(), tracer.Hooks())
	ctx, around := p.Tracer("test").Start(t.Context(), "around")
	_, err := e.RunIfLeader(ctx, "job", func(ctx context.Context) error {
		l, err := e.Acquire(ctx, "part")
		if err != nil {
			return err
		}
		return l.Release(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Acquire(ctx, "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	around.End()
	run, outer := spans.Ended()[0], spans.Ended()[1]
	if got, want := events(run), "acquired, released"; got != want && got != "acquired, acquired, released, released" {
		t.Errorf("events of the run: %s, want %s of its own lease and of the inner one", got, want)
	}
	var inner []string
	for _, e := range run.Events() {
		if name, ok := attributes(e.Attributes)["leader.name"]; ok {
			inner = append(inner, e.Name+" "+name.(string))
		}
	}
	if !slices.Equal(inner, []string{"acquired part", "released part"}) {
		t.Errorf("events of the inner lease: %v", inner)
	}
	if got, want := events(outer), "acquired, released"; got != want {
		t.Errorf("events around: %s, want %s", got, want)
	}
}

// A program may lead one name in two stores.
func TestTracer_ALeaseOfTheSameNameAcquiredByHandIsNotThatOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, _, spans := recorded()
		first, second := elector(t, local.New(), tracer.Hooks()), elector(t, newStore(), tracer.Hooks())
		_, err := first.RunIfLeader(t.Context(), "job", func(ctx context.Context) error {
			time.Sleep(time.Second) // or the fences of both stores would begin at one instant
			l, err := second.Acquire(ctx, "job")
			if err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return l.Release(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		span := spans.Ended()[0]
		own := make(map[string]int)
		for _, e := range span.Events() {
			if _, inner := attributes(e.Attributes)["leader.name"]; !inner {
				own[e.Name]++
			}
		}
		if counted, _ := attributes(span.Attributes())["leader.renewals"].(int64); own["acquired"] != 1 ||
			own["released"] != 1 || int64(own["renewed"]) != counted || counted > 12 {
			t.Errorf("of the run's own lease are %v, and %d renewals are counted", own, counted)
		}
	})
}

func TestTracer_EndsEachSpanOnceWhateverTheActionDoes(t *testing.T) {
	tracer, _, spans := recorded()
	e := elector(t, local.New(), tracer.Hooks())
	for name, action := range map[string]leader.Action{
		"panics":   func(context.Context) error { panic("no") },
		"goes":     func(context.Context) error { runtime.Goexit(); return nil },
		"repeats":  func(ctx context.Context) error { _, err := e.RunIfLeader(ctx, "repeats", nothing); return err },
		"releases": func(ctx context.Context) error { l, _ := leader.LeaseFrom(ctx); return l.Release(ctx) },
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_, _ = e.RunIfLeader(t.Context(), name, action)
		}()
		<-done
	}
	ids := make(map[string]int)
	reasons := make(map[string]string)
	for _, s := range spans.Ended() {
		ids[s.SpanContext().SpanID().String()]++
		attrs := attributes(s.Attributes())
		if reason, ok := attrs["leader.reason"].(string); ok {
			reasons[attrs["leader.name"].(string)] = reason
		}
	}
	if len(spans.Started()) != 5 || len(spans.Ended()) != 5 || len(ids) != 5 {
		t.Errorf("%d spans have started and %d ended, %d of them different; want five", len(spans.Started()), len(spans.Ended()), len(ids))
	}
	want := map[string]string{"panics": "no_return", "goes": "no_return", "repeats": "reentrant"}
	if !maps.Equal(reasons, want) {
		t.Errorf("reasons %v, want %v", reasons, want)
	}
}

func TestTracer_OfWhatIsNotSampled_RunsAll(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	p := trace.NewTracerProvider(trace.WithSpanProcessor(spans), trace.WithSampler(trace.NeverSample()))
	e := elector(t, local.New(), otelleader.NewTracer(p).Hooks())
	r, err := e.RunIfLeader(t.Context(), "job", nothing)
	if err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
}
