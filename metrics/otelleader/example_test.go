package otelleader_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics/otelleader"
)

func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter() // in a service, one that exports
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	defer func() {
		_ = meters.Shutdown(ctx)
		_ = tracers.Shutdown(ctx)
	}()

	tracer := otelleader.NewTracer(tracers)
	meter, err := otelleader.NewMeter(meters, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	elector, err := leader.New(local.New(), leader.WithHooks(leader.JoinHooks(tracer.Hooks(), meter.Hooks())))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := elector.RunIfLeader(ctx, "report", func(context.Context) error { return nil }); err != nil {
		fmt.Println(err)
		return
	}
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
		for _, event := range span.Events {
			fmt.Println("  " + event.Name)
		}
	}
	// Output:
	// leader.run
	//   acquired
	//   released
}
