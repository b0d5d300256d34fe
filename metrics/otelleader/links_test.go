package otelleader_test

import (
	"context"
	"iter"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics/otelleader"
)

func TestTracer_LinksARunToTheOneThatLedBefore(t *testing.T) {
	tracer, _, spans := recorded()
	s := local.New()
	for _, node := range []string{"a", "b", "c"} {
		e := elector(t, s, tracer.Hooks(), leader.WithNodeID(node))
		for _, name := range []string{"job", "another"} {
			if _, err := e.RunIfLeader(t.Context(), name, nothing); err != nil {
				t.Fatal(err)
			}
		}
	}
	ended := spans.Ended()
	if n := len(ended[0].Links()) + len(ended[1].Links()); n != 0 {
		t.Errorf("the first runs have %d links", n)
	}
	for i := 2; i < len(ended); i++ {
		before := ended[i-2]
		link, ok := links(ended[i])["previous"]
		if !ok || link.SpanContext.SpanID() != before.SpanContext().SpanID() {
			t.Errorf("run %d has links %v, want one to the run of its name before", i, ended[i].Links())
		}
		if got, want := attributes(link.Attributes)["leader.fence"], attributes(before.Attributes())["leader.fence"]; got != want {
			t.Errorf("the link tells fence %v, want %v", got, want)
		}
	}
}

func TestTracer_DoesNotLinkTheRunsOfANodeThatGoesOn(t *testing.T) {
	tracer, _, spans := recorded()
	e := elector(t, local.New(), tracer.Hooks())
	for range 3 {
		if _, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil {
			t.Fatal(err)
		}
	}
	for i, span := range spans.Ended() {
		if n := len(span.Links()); n != 0 {
			t.Errorf("run %d has %d links", i, n)
		}
	}
}

func TestTracer_SlotsOfAGroupAreApart(t *testing.T) {
	tracer, _, spans := recorded()
	s := local.New()
	group := func(node string) *leader.Group {
		g, err := leader.NewGroup(s, 2, leader.WithHooks(tracer.Hooks()), leader.WithNodeID(node))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	_, err := group("a").RunIfLeader(t.Context(), "workers", func(context.Context) error {
		_, err := group("b").RunIfLeader(t.Context(), "workers", nothing)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, span := range spans.Ended() {
		if n := len(span.Links()); n != 0 {
			t.Errorf("the first run of slot %v has %d links", attributes(span.Attributes())["leader.slot"], n)
		}
	}
}

func TestTracer_LinksASkippedRunToItsHolder(t *testing.T) {
	tracer, p, spans := recorded()
	s := local.New()
	ctx, around := p.Tracer("test").Start(t.Context(), "around")
	_, err := elector(t, s, leader.Hooks{}).RunIfLeader(ctx, "job", func(context.Context) error {
		_, err := elector(t, s, tracer.Hooks()).RunIfLeader(t.Context(), "job", nothing)
		return err
	}, leader.WithMetadata(otelleader.Metadata(ctx, nil)))
	if err != nil {
		t.Fatal(err)
	}
	link, ok := links(spans.Ended()[0])["holder"]
	if !ok || link.SpanContext.SpanID() != around.SpanContext().SpanID() {
		t.Errorf("the skipped run has links %v, want one to what the holder was doing", spans.Ended()[0].Links())
	}
}

// film is a watcher that shows what it is told to.
type film []leader.State

func (f film) Watch(context.Context, string) iter.Seq2[leader.State, error] {
	return func(yield func(leader.State, error) bool) {
		for _, s := range f {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func TestTracer_Watch_LinksToLeadersOfOtherProcesses(t *testing.T) {
	tracer, p, spans := recorded()
	s := local.New()
	ctx, far := p.Tracer("test").Start(t.Context(), "far away")
	e := elector(t, s, tracer.Hooks(), leader.WithNodeID("near"))
	there, err := elector(t, s, leader.Hooks{}).Acquire(ctx, "job", leader.WithMetadata(otelleader.Metadata(ctx, nil)))
	if err != nil {
		t.Fatal(err)
	}
	state, err := e.State(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Release(ctx); err != nil {
		t.Fatal(err)
	}
	around, _ := p.Tracer("test").Start(t.Context(), "around the watch") // which leads nothing
	unknown := leader.State{Node: "x", Fence: state.Fence + 1}
	if err := tracer.Watch(around, film{state, {}, unknown}, "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil {
		t.Fatal(err)
	}
	checkPrevious(t, spans, far)
}

func TestTracer_Watch_OfTheRunsOwnLease_LinksItNotToItself(t *testing.T) {
	tracer, p, spans := recorded()
	s := local.New()
	if _, err := elector(t, s, tracer.Hooks()).RunIfLeader(t.Context(), "job", nothing); err != nil {
		t.Fatal(err)
	}
	ctx, _ := p.Tracer("test").Start(t.Context(), "around")
	another := leader.WithNodeID("another")
	sooner := leader.Hooks{Acquired: func(ctx context.Context, l leader.LeaseInfo) {
		own := leader.State{Node: l.Node, Fence: l.Fence, Metadata: otelleader.Metadata(ctx, nil)}
		if err := tracer.Watch(ctx, film{own}, "job"); err != nil {
			t.Error(err)
		}
	}}
	_, err := elector(t, s, leader.JoinHooks(sooner, tracer.Hooks()), another).RunIfLeader(ctx, "job", nothing)
	if err != nil {
		t.Fatal(err)
	}
	checkPrevious(t, spans, spans.Ended()[0])
}

// checkPrevious fails unless the span that ended last is linked to one that led before.
func checkPrevious(t *testing.T, spans *tracetest.SpanRecorder, before interface{ SpanContext() trace.SpanContext }) {
	t.Helper()
	ended := spans.Ended()
	last := ended[len(ended)-1]
	if link := links(last)["previous"]; link.SpanContext.SpanID() != before.SpanContext().SpanID() {
		t.Errorf("links %v, want one to %v", last.Links(), before.SpanContext())
	}
}

func TestMetadata_KeepsWhatIsThereAndAddsTheSpan(t *testing.T) {
	_, p, _ := recorded()
	ctx, span := p.Tracer("test").Start(t.Context(), "around")
	given := map[string]string{"version": "7"}
	got := otelleader.Metadata(ctx, given)
	if len(given) != 1 || len(got) != 2 || got["version"] != "7" {
		t.Errorf("of %v it made %v", given, got)
	}
	if want := "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"; got["traceparent"] != want {
		t.Errorf("traceparent %s, want %s", got["traceparent"], want)
	}
	if got := otelleader.Metadata(t.Context(), nil); len(got) != 0 {
		t.Errorf("without a span it made %v", got)
	}
}
