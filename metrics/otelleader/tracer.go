package otelleader

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/goleader/leader"
	"github.com/goleader/leader/metrics"
)

// MaxRenewals is how many renewals of a run are events of its span, and how many failed ones.
const MaxRenewals = 32

// Tracer makes a span of each run. All methods may be called concurrently. Use [NewTracer]: the zero value is not ready.
type Tracer struct {
	tracer   trace.Tracer
	previous previous
}

// NewTracer returns a tracer that makes its spans with p.
func NewTracer(p trace.TracerProvider) *Tracer { return &Tracer{tracer: p.Tracer(scope)} }

// Hooks returns the hooks that make the spans, for [leader.WithHooks]. Hooks joined after them see the span in their
// context.
func (t *Tracer) Hooks() leader.Hooks {
	return leader.Hooks{
		RunStarted:    t.started,
		RunFinished:   t.finished,
		Acquired:      t.acquired,
		Renewed:       t.renewed,
		RenewFailed:   t.renewFailed,
		Lost:          t.lost,
		Released:      t.released,
		ReleaseFailed: t.releaseFailed,
	}
}

// run is the context of a run with its span, in which the hooks find it.
type run struct {
	context.Context //nolint:containedctx // it is one

	tracer   *Tracer
	name     string
	span     trace.Span
	recorded bool    // the span is, so it is worth describing
	own      leaseID // the one it runs under, known before the action starts
	renewals atomic.Int64
	failures atomic.Int64
	lost     sync.Once // the event of it

	attrs [5]attribute.KeyValue // room for those that most runs have, first the name
}

// leaseID tells the lease of a run from those acquired by hand inside of it.
type leaseID struct {
	node, key string
	fence     uint64
}

func idOf(l leader.LeaseInfo) leaseID { return leaseID{l.Node, l.Key, l.Fence} }

// runKey finds the run that this tracer put into a context.
type runKey struct{ t *Tracer }

// Value implements [context.Context].
func (r *run) Value(key any) any {
	if k, ok := key.(runKey); ok && k.t == r.tracer {
		return r
	}
	return r.Context.Value(key)
}

func (t *Tracer) started(ctx context.Context, name string) context.Context {
	r := &run{tracer: t, name: name}
	r.attrs[0] = keyName.String(name)
	r.Context, r.span = t.tracer.Start(ctx, "leader.run", trace.WithAttributes(r.attrs[:1]...))
	r.recorded = r.span.IsRecording()
	return r
}

// begun returns the run for which a lease was acquired, which is now that run's own; nil if it was acquired by hand.
func (t *Tracer) begun(ctx context.Context, l leader.LeaseInfo) *run {
	r, ok := ctx.Value(runKey{t}).(*run)
	if !ok || r.name != l.Name || r.own != (leaseID{}) {
		return nil
	}
	r.own = idOf(l)
	return r
}

// runOf returns the run that a lease is of; nil if it was acquired by hand, inside or outside of one.
func (t *Tracer) runOf(ctx context.Context, l leader.LeaseInfo) *run {
	if r, ok := ctx.Value(runKey{t}).(*run); ok && r.own == idOf(l) {
		return r
	}
	return nil
}

// finished ends the span. A hook of somebody else may have replaced the context of the run; its span never ends then.
func (t *Tracer) finished(ctx context.Context, name string, result leader.RunResult, err error) {
	r, ok := ctx.Value(runKey{t}).(*run)
	if !ok || r.name != name {
		return
	}
	defer r.span.End()
	if !r.recorded {
		return
	}
	outcome, reason := metrics.Outcome(ctx, result, err)
	describe(r, result, outcome, reason)
	if gone := lostIn(result); gone != nil { // the hook may be called a moment later
		r.addLost(gone)
	}
	if result.Holder.Node != "" {
		linkHolder(ctx, r.span, result.Holder)
	}
	if reason != metrics.Canceled {
		judge(r.span, result, err)
	}
}
