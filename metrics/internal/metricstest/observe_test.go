package metricstest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goleader/leader"
	"github.com/goleader/leader/metrics/otelleader"
	"github.com/goleader/leader/metrics/promleader"
)

// inProm feeds a registry.
func inProm(t testing.TB) (*prometheus.Registry, leader.Hooks) {
	t.Helper()
	registry, collector := prometheus.NewRegistry(), promleader.New(nil)
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	return registry, collector.Hooks()
}

// inOTel feeds a reader.
func inOTel(t testing.TB) (*metric.ManualReader, leader.Hooks) {
	t.Helper()
	reader := metric.NewManualReader()
	meter, err := otelleader.NewMeter(metric.NewMeterProvider(metric.WithReader(reader)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return reader, meter.Hooks()
}

// traced makes a span of each run, and gives them all to an exporter that does nothing: what real ones do, mostly on
// another goroutine, is not the hooks' doing.
func traced() leader.Hooks {
	p := trace.NewTracerProvider(trace.WithSyncer(tracetest.NewNoopExporter()))
	return otelleader.NewTracer(p).Hooks()
}

// observers are metrics of either kind, with traces.
func observers(t testing.TB) map[string]leader.Hooks {
	t.Helper()
	_, prom := inProm(t)
	_, otel := inOTel(t)
	return map[string]leader.Hooks{
		"traces":     traced(),
		"prometheus": leader.JoinHooks(traced(), prom),
		"otel":       leader.JoinHooks(traced(), otel),
	}
}
