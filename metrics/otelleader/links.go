package otelleader

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/goleader/leader"
	"github.com/goleader/leader/metrics"
)

// format is how spans are written into metadata: as W3C has it.
var format propagation.TraceContext

// Metadata returns a copy of m with the span of ctx in it, for [leader.WithMetadata], so that runs of other processes can
// link to it. It takes the keys traceparent and, if there is one, tracestate; the latter is left out where it is longer
// than metadata may be. Without a span the copy is all there is.
func Metadata(ctx context.Context, m map[string]string) map[string]string {
	carrier := propagation.MapCarrier{}
	format.Inject(ctx, carrier)
	if len(carrier["tracestate"]) > 256 {
		delete(carrier, "tracestate")
	}
	all := maps.Clone(m)
	if all == nil {
		all = make(map[string]string, len(carrier))
	}
	maps.Copy(all, carrier)
	return all
}

// spanIn is the span that metadata tell of; invalid if they do not.
func spanIn(ctx context.Context, metadata map[string]string) trace.SpanContext {
	if metadata["traceparent"] == "" {
		return trace.SpanContext{}
	}
	none := trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // that of ctx is not meant
	return trace.SpanContextFromContext(format.Extract(none, propagation.MapCarrier(metadata)))
}

// linkHolder links the span of a run that was skipped to what the holder was doing, if that is known.
func linkHolder(ctx context.Context, span trace.Span, holder leader.State) {
	if to := spanIn(ctx, holder.Metadata); to.IsValid() {
		span.AddLink(link(to, "holder", holder.Fence))
	}
}

func link(to trace.SpanContext, why string, f uint64) trace.Link {
	return trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{keyLink.String(why), fence(f)}}
}

// Watch follows who leads under a name, also in other processes, so that the next run here can be linked to what the last
// leader there was doing. It needs leaders that publish [Metadata]. It returns nil when ctx ends, and the error after which
// the elector's Watch ends.
func (t *Tracer) Watch(ctx context.Context, w metrics.Watcher, name string) error {
	for state, err := range w.Watch(ctx, name) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if span := spanIn(ctx, state.Metadata); span.IsValid() && state.Node != "" {
			t.previous.saw(seat{name: name}, term{span, state.Node, state.Fence})
		}
	}
	return nil
}
