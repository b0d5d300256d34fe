package metricstest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// TestFigures_AreTheSameInBoth compares the figures of promleader with what an exporter to Prometheus would make of those
// of otelleader.
func TestFigures_AreTheSameInBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, prom := inProm(t)
		reader, otel := inOTel(t)
		e, err := leader.New(local.New(), leader.WithHooks(leader.JoinHooks(prom, otel)), leader.WithLeaseTime(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		actions := []leader.Action{
			func(context.Context) error { return nil },
			func(context.Context) error { return errors.New("no") },
			func(context.Context) error { time.Sleep(time.Minute); return nil },
			func(ctx context.Context) error { _, err := e.RunIfLeader(ctx, "job", nil); return err },
		}
		for _, action := range actions {
			if _, err := e.RunIfLeader(t.Context(), "job", action); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Acquire(t.Context(), "by hand"); err != nil {
			t.Fatal(err)
		}
		ours, theirs := promFigures(t, registry), otelFigures(t, reader)
		if len(theirs) < 9 {
			t.Errorf("only %d figures: %v", len(theirs), theirs)
		}
		if !maps.Equal(ours, theirs) {
			t.Errorf("promleader has\n%v\nand otelleader\n%v", ours, theirs)
		}
	})
}

// promFigures are the values that are not 0, of histograms the counts.
func promFigures(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	figures := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if value != 0 {
				figures[f.GetName()+textOf(labels)] = value
			}
		}
	}
	return figures
}

func otelFigures(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	figures := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := strings.ReplaceAll(m.Name, ".", "_")
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				if data.IsMonotonic {
					name += "_total"
				}
				for _, p := range data.DataPoints {
					labels := make(map[string]string)
					for _, kv := range p.Attributes.ToSlice() {
						labels[strings.TrimPrefix(string(kv.Key), "leader.")] = kv.Value.AsString()
					}
					figures[name+textOf(labels)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				if m.Unit != "s" {
					t.Errorf("%s is in %q", m.Name, m.Unit)
				}
				for _, p := range data.DataPoints {
					labels := make(map[string]string)
					for _, kv := range p.Attributes.ToSlice() {
						labels[strings.TrimPrefix(string(kv.Key), "leader.")] = kv.Value.AsString()
					}
					figures[name+"_seconds"+textOf(labels)] = float64(p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	maps.DeleteFunc(figures, func(_ string, v float64) bool { return v == 0 })
	return figures
}

func textOf(labels map[string]string) string {
	list := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if labels[name] != "" {
			list = append(list, name+"="+labels[name])
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}
