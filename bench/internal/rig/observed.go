package rig

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goleader/leader"
	"github.com/goleader/leader/internal/testserver"
	"github.com/goleader/leader/metrics/otelleader"
	"github.com/goleader/leader/metrics/promleader"
)

// ObservedRun returns a RunIfLeader with hooks for metrics and traces. The spans go to an exporter that does nothing with
// them: what real ones do, mostly on another goroutine, is not the hooks' doing.
func (r *Redis) ObservedRun(t testserver.TB) Op {
	t.Helper()
	collector := promleader.New(nil)
	if err := prometheus.NewRegistry().Register(collector); err != nil {
		t.Fatalf("%v", err)
	}
	tracer := otelleader.NewTracer(trace.NewTracerProvider(trace.WithSyncer(tracetest.NewNoopExporter())))
	hooks := leader.JoinHooks(tracer.Hooks(), collector.Hooks())
	return run(newElector(t, r.driver(t, r.client), leader.WithHooks(hooks)), "observed")
}
