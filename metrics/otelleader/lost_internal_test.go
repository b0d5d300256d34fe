package otelleader

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/goleader/leader"
)

// slowSpan takes its time for an event, and notes what becomes of it first.
type slowSpan struct {
	noop.Span

	adding, ended chan struct{}
	first         string
}

func (s *slowSpan) AddEvent(name string, _ ...trace.EventOption) {
	close(s.adding)
	select {
	case <-s.ended:
		s.first = "end"
	case <-time.After(100 * time.Millisecond):
		s.first = name
	}
}

func (s *slowSpan) End(...trace.SpanEndOption) { close(s.ended) }

func TestTracer_Finished_WaitsForTheEventOfALoss(t *testing.T) {
	span := &slowSpan{adding: make(chan struct{}), ended: make(chan struct{})}
	tracer := NewTracer(noop.NewTracerProvider())
	r := &run{Context: t.Context(), tracer: tracer, name: "job", span: span, recorded: true}
	added := make(chan struct{})
	go func() {
		r.addLost(leader.ErrExpired) // by the hook
		close(added)
	}()
	<-span.adding
	tracer.finished(r, "job", leader.RunResult{Lost: leader.ErrExpired}, nil)
	<-added
	if span.first != "lost" {
		t.Errorf("the first was the %s of the span, want the event", span.first)
	}
}
