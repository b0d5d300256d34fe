package otelleader

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/goleader/leader"
	"github.com/goleader/leader/metrics"
)

func (t *Tracer) acquired(ctx context.Context, l leader.LeaseInfo) {
	r := t.begun(ctx, l)
	if r == nil {
		t.tell(ctx, l, "acquired")
		return
	}
	r.span.AddEvent("acquired")
	t.previous.follow(r, l)
}

func (t *Tracer) renewed(ctx context.Context, l leader.LeaseInfo, took time.Duration) {
	if r := t.runOf(ctx, l); r == nil || r.renewals.Add(1) <= MaxRenewals {
		t.tell(ctx, l, "renewed", keyTook.Float64(took.Seconds()))
	}
}

func (t *Tracer) renewFailed(ctx context.Context, l leader.LeaseInfo, err error) {
	if r := t.runOf(ctx, l); r == nil || r.failures.Add(1) <= MaxRenewals {
		t.tell(ctx, l, "renewal failed", keyKind.String(metrics.Kind(err)), keyError.String(err.Error()))
	}
}

func (t *Tracer) lost(ctx context.Context, l leader.LeaseInfo, cause error) {
	if r := t.runOf(ctx, l); r != nil {
		r.addLost(cause)
		return
	}
	t.tell(ctx, l, "lost", lossOf(cause)...)
}

// addLost adds the event once: the end of the run tells of it too. It returns when it is added, since the span may end
// then.
func (r *run) addLost(cause error) {
	r.lost.Do(func() { r.span.AddEvent("lost", trace.WithAttributes(lossOf(cause)...)) })
}

func lossOf(cause error) []attribute.KeyValue {
	return []attribute.KeyValue{keyCause.String(metrics.Cause(cause)), keyError.String(cause.Error())}
}

func (t *Tracer) released(ctx context.Context, l leader.LeaseInfo) { t.tell(ctx, l, "released") }

func (t *Tracer) releaseFailed(ctx context.Context, l leader.LeaseInfo, err error) {
	t.tell(ctx, l, "release failed", keyKind.String(metrics.Kind(err)), keyError.String(err.Error()))
}

// tell adds an event to the span of the lease's run; that of a lease acquired by hand, which says whose it is, to the
// span around it.
func (t *Tracer) tell(ctx context.Context, l leader.LeaseInfo, event string, attrs ...attribute.KeyValue) {
	if r := t.runOf(ctx, l); r != nil {
		if r.recorded {
			addEvent(r.span, event, attrs)
		}
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		addEvent(span, event, append(attrs, keyName.String(l.Name), fence(l.Fence)))
	}
}

func addEvent(span trace.Span, event string, attrs []attribute.KeyValue) {
	if len(attrs) == 0 {
		span.AddEvent(event)
		return
	}
	span.AddEvent(event, trace.WithAttributes(attrs...))
}
