package otelleader

import (
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

func TestPrevious_ForgetsNamesWhenThereAreTooMany(t *testing.T) {
	var p previous
	for n := range 2 * maxPrevious {
		p.saw(seat{name: strconv.Itoa(n)}, term{fence: 1})
	}
	if len(p.terms) != maxPrevious {
		t.Errorf("it knows %d names, want %d", len(p.terms), maxPrevious)
	}
}

func TestPrevious_WhatIsSeenLateChangesNothing(t *testing.T) {
	span := func(id byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}})
	}
	var p previous
	var s seat
	p.saw(s, term{span(1), "a", 1})
	p.saw(s, term{span(3), "b", 3})
	if _, ok := p.saw(s, term{span(2), "c", 2}); ok {
		t.Error("an old term has one before it")
	}
	if before, ok := p.saw(s, term{span(4), "d", 4}); !ok || before.fence != 3 {
		t.Errorf("before the fourth was %v, want the third", before)
	}
}
