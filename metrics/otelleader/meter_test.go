package otelleader_test

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/metrics"
	"github.com/goleader/leader/metrics/otelleader"
)

func meter(t testing.TB, opts *otelleader.MeterOptions) (*otelleader.Meter, *metric.ManualReader) {
	t.Helper()
	reader := metric.NewManualReader()
	m, err := otelleader.NewMeter(metric.NewMeterProvider(metric.WithReader(reader)), opts)
	if err != nil {
		t.Fatal(err)
	}
	return m, reader
}

// collect returns what a reader has, as name{key=value}; of a histogram the count.
func collect(t testing.TB, r *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	figures := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					figures[m.Name+text(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					figures[m.Name+text(p.Attributes)] = float64(p.Count)
				}
			default:
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return figures
}

func text(set attribute.Set) string {
	var list []string
	for _, kv := range set.ToSlice() {
		if kv.Value.AsString() != "" {
			list = append(list, string(kv.Key)+"="+kv.Value.AsString())
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func TestMeter_CountsWhatElectorsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reader := meter(t, nil)
		s := newStore()
		e := elector(t, s, m.Hooks())
		for _, action := range []leader.Action{works(10 * time.Second), func(context.Context) error { return errAction }} {
			if _, err := e.RunIfLeader(t.Context(), "job", action); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Acquire(t.Context(), "by hand"); err != nil {
			t.Fatal(err)
		}
		got := collect(t, reader)
		for name, want := range map[string]float64{
			"leader.runs{leader.name=job,leader.outcome=elected}":       1,
			"leader.runs{leader.name=job,leader.outcome=action_failed}": 1,
			"leader.acquire.duration{leader.name=job}":                  2,
			"leader.run.duration{leader.name=job}":                      2,
			"leader.leases.acquired{leader.name=job}":                   2,
			"leader.releases{leader.name=job}":                          2,
			"leader.active_leases{leader.name=job}":                     0,
			"leader.active_leases{leader.name=by hand}":                 1,
			"leader.renewals{leader.name=job}":                          1,
			"leader.renewal.duration{}":                                 1,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %v; all are %v", name, got[name], want, got)
			}
		}
	})
}

func TestMeter_CountsWhatHappensAfterItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reader := meter(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := elector(t, local.New(), m.Hooks()).RunIfLeader(ctx, "job", func(context.Context) error {
			cancel()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got := collect(t, reader)
		if got["leader.releases{leader.name=job}"] != 1 || got["leader.active_leases{leader.name=job}"] != 0 {
			t.Errorf("the release is missing: %v", got)
		}
	})
}

func TestMeter_OfTenThousandNames_StaysBounded(t *testing.T) {
	const names, perName = 10_000, 35
	m, reader := meter(t, nil)
	e := elector(t, local.New(), m.Hooks())
	for n := range names {
		if _, err := e.RunIfLeader(t.Context(), strconv.Itoa(n), nothing); err != nil {
			t.Fatal(err)
		}
	}
	got := collect(t, reader)
	if n := got["leader.runs{leader.name=other,leader.outcome=elected}"]; n != names-metrics.DefaultNames {
		t.Errorf("%v runs are of other names, want %d", n, names-metrics.DefaultNames)
	}
	if n := len(got); n > perName*(metrics.DefaultNames+1) {
		t.Errorf("%d series", n)
	}
}

func TestMeter_ShowsTheCountsOfAHistory(t *testing.T) {
	recorder := history.NewRecorder(history.NewMemory(10), nil)
	m, reader := meter(t, &otelleader.MeterOptions{History: recorder})
	e := elector(t, local.New(), leader.JoinHooks(recorder.Hooks(), m.Hooks()))
	if _, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, stats := collect(t, reader), recorder.Stats()
	if got["leader.history.records.stored{}"] != float64(stats.Stored) || stats.Stored == 0 {
		t.Errorf("it shows %v, the recorder has %+v", got, stats)
	}
	for _, name := range []string{"leader.history.records.refused{}", "leader.history.records.dropped{}"} {
		if n, ok := got[name]; !ok || n != 0 {
			t.Errorf("%s is %v, %v; want a zero", name, n, ok)
		}
	}
}

func TestMeter_Watch_MeasuresGaps(t *testing.T) {
	m, reader := meter(t, nil)
	seen := film{{Node: "a", Fence: 1}, {}, {Node: "b", Fence: 2}}
	if err := m.Watch(t.Context(), seen, "service"); err != nil {
		t.Fatal(err)
	}
	if n := collect(t, reader)["leader.handover.gap{leader.name=service}"]; n != 1 {
		t.Errorf("%v gaps, want 1", n)
	}
}

func TestPackage_NeedsNeitherTheSDKNorGlobalProviders(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if path == "go.opentelemetry.io/otel" || strings.HasPrefix(path, "go.opentelemetry.io/otel/sdk") ||
			strings.HasPrefix(path, "go.opentelemetry.io/otel/internal/global") {
			t.Errorf("it imports %s", path)
		}
	}
}
