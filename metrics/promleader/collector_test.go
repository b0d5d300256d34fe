package promleader_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/metrics/promleader"
)

// register returns a registry with a collector.
func register(t testing.TB, opts *promleader.Options) (*promleader.Collector, *prometheus.Registry) {
	t.Helper()
	c, r := promleader.New(opts), prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	return c, r
}

// aDay lets electors do one of everything, in the virtual time of a bubble.
func aDay(t testing.TB, hooks leader.Hooks) {
	t.Helper()
	ctx := t.Context()
	s := newStore()
	e := elector(t, s, hooks)
	run := func(action leader.Action, opts ...leader.RunOption) {
		_, _ = e.RunIfLeader(ctx, "job", action, opts...) // the figures are what is checked
	}
	run(works(time.Minute))
	run(func(context.Context) error { return errAction })
	s.fail(script{acquire: backend.ErrHeld})
	run(nothing)
	s.fail(script{acquire: errDown})
	run(nothing)
	run(nothing, leader.WithFailureMode(leader.Skip))
	run(nothing, leader.WithFailureMode(leader.FailOpenRun))
	s.fail(script{renew: backend.ErrLost})
	run(works(10 * time.Second))
	time.Sleep(time.Minute) // what was lost has ended in the store too
	s.fail(script{release: errDown})
	run(nothing)
	s.fail(script{})
	time.Sleep(time.Minute)
	lease, err := e.Acquire(ctx, "by hand")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.WithoutCancel(ctx)) })
}

func TestCollector_CountsWhatElectorsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := register(t, nil)
		aDay(t, c.Hooks())
		got := scrape(t, r)
		renewals := got["leader_renewals_total{name=job}"]
		if renewals < 7 || renewals > 11 { // one in about seven seconds, each at a random time
			t.Errorf("%v renewals in a minute", renewals)
		}
		if took := got["leader_run_duration_seconds_sum{name=job}"]; took < 70 || took > 75 {
			t.Errorf("all runs held leases for %v s, want a minute and ten seconds", took)
		}
		delete(got, "leader_run_duration_seconds_sum{name=job}")
		delete(got, "leader_acquire_duration_seconds_sum{name=job}")
		delete(got, "leader_renewal_duration_seconds_sum")
		check(t, got, map[string]float64{
			"leader_runs_total{name=job,outcome=elected}":                     2,
			"leader_runs_total{name=job,outcome=elected,reason=lost}":         1,
			"leader_runs_total{name=job,outcome=elected,reason=unguarded}":    1,
			"leader_runs_total{name=job,outcome=action_failed}":               1,
			"leader_runs_total{name=job,outcome=skipped,reason=contended}":    1,
			"leader_runs_total{name=job,outcome=skipped,reason=store_failed}": 1,
			"leader_runs_total{name=job,outcome=not_run,reason=unavailable}":  1,
			"leader_acquire_duration_seconds_count{name=job}":                 4,
			"leader_run_duration_seconds_count{name=job}":                     4,
			"leader_acquire_failures_total{kind=unavailable,name=job}":        3,
			"leader_leases_acquired_total{name=job}":                          4,
			"leader_leases_acquired_total{name=by hand}":                      1,
			"leader_active_leases{name=by hand}":                              1,
			"leader_leases_lost_total{cause=taken_over,name=job}":             1,
			"leader_renewals_total{name=job}":                                 renewals,
			"leader_renewal_duration_seconds_count":                           renewals,
			"leader_releases_total{name=job}":                                 2,
			"leader_release_failures_total{kind=unavailable,name=job}":        1,
		})
	})
}

func TestCollector_CountsFailedRenewalsAndTheLossTheyLeadTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := register(t, nil)
		s := newStore()
		s.fail(script{renew: errDown})
		e := elector(t, s, c.Hooks())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = e.RunIfLeader(t.Context(), "job", works(time.Minute)) // the figures are what is checked
		}()
		time.Sleep(15 * time.Second)
		got := scrape(t, r)
		if n := got["leader_renewal_failures_total{kind=unavailable,name=job}"]; n < 2 {
			t.Errorf("%v renewals failed in 15 s, want several", n)
		}
		if n := got["leader_active_leases{name=job}"]; n != 1 {
			t.Errorf("%v leases are active before the deadline, want 1", n)
		}
		time.Sleep(15 * time.Second)
		got = scrape(t, r)
		if n := got["leader_active_leases{name=job}"]; n != 0 {
			t.Errorf("%v leases are active after the deadline, while the action works on, want none", n)
		}
		if n := got["leader_leases_lost_total{cause=expired,name=job}"]; n != 1 {
			t.Errorf("%v leases were lost, want 1", n)
		}
		<-ended
	})
}

func TestCollector_ANameBeginsWithWhatAlertsLookAt(t *testing.T) {
	c, r := register(t, nil)
	if _, err := elector(t, local.New(), c.Hooks()).RunIfLeader(t.Context(), "job", nothing); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	begun := make(map[string]bool)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			begun[f.GetName()+labelsOf(m)] = true
		}
	}
	for _, series := range []string{
		"leader_leases_lost_total{cause=expired,name=job}",
		"leader_leases_lost_total{cause=taken_over,name=job}",
		"leader_leases_lost_total{cause=abandoned,name=job}",
		"leader_runs_total{name=job,outcome=elected,reason=unguarded}",
		"leader_runs_total{name=job,outcome=action_failed,reason=unguarded}",
		"leader_runs_total{name=job,outcome=action_failed,reason=no_return}",
		"leader_runs_total{name=job,outcome=not_run,reason=denied}",
		"leader_runs_total{name=job,outcome=not_run,reason=misconfigured}",
		"leader_runs_total{name=job,outcome=not_run,reason=unsupported}",
		"leader_renewal_failures_total{kind=unavailable,name=job}",
		"leader_release_failures_total{kind=unavailable,name=job}",
		"leader_runs_total{name=job,outcome=action_failed}",
		"leader_runs_total{name=job,outcome=not_run,reason=unavailable}",
	} {
		if !begun[series] {
			t.Errorf("%s is missing before it happens", series)
		}
	}
}

func TestCollector_Watch_BeginsTheSeriesOfItsNameAtOnce(t *testing.T) {
	c, r := register(t, nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Watch(over, elector(t, local.New(), leader.Hooks{}), "service"); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	begun := make(map[string]bool)
	for _, f := range families {
		begun[f.GetName()] = true
	}
	for _, name := range []string{"leader_handover_gap_seconds", "leader_active_leases"} {
		if !begun[name] {
			t.Errorf("%s is missing before the first hand-over", name)
		}
	}
}

func TestCollector_Watch_MeasuresGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := register(t, nil)
		s := local.New()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Watch(ctx, elector(t, s, leader.Hooks{}), "service") }()
		for range 3 {
			if _, err := elector(t, s, leader.Hooks{}).RunIfLeader(ctx, "service", works(10*time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got := scrape(t, r)
		if n := got["leader_handover_gap_seconds_count{name=service}"]; n != 2 {
			t.Errorf("%v gaps, want 2", n)
		}
		if s := got["leader_handover_gap_seconds_sum{name=service}"]; s < 16 || s > 24 {
			t.Errorf("they were %v s long together, want about 20", s)
		}
	})
}

// stuck is a sink that stores nothing before the test lets it.
type stuck chan struct{}

func (s stuck) Write(ctx context.Context, _ []history.Record) error {
	select {
	case <-s:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func TestCollector_ShowsRecordsThatWereDropped(t *testing.T) {
	sink := make(stuck)
	recorder := history.NewRecorder(sink, &history.Options{
		Capacity: 1, Batch: 1, Omit: []history.Status{history.Running}, Logger: slog.New(slog.DiscardHandler),
	})
	c, r := register(t, &promleader.Options{History: recorder})
	e := elector(t, local.New(), leader.JoinHooks(recorder.Hooks(), c.Hooks()))
	const runs = 5
	for range runs {
		if _, err := e.RunIfLeader(t.Context(), "job", nothing); err != nil {
			t.Fatal(err)
		}
	}
	close(sink)
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, r)
	dropped, stored := got["leader_history_records_dropped_total"], got["leader_history_records_stored_total"]
	if dropped < runs-2 || dropped+stored != runs { // one is at the sink, one waits
		t.Errorf("%v records were dropped and %v stored, want that of %v at most 2 are stored", dropped, stored, runs)
	}
}

func TestCollector_OfAnotherBoundOnNames(t *testing.T) {
	c, r := register(t, &promleader.Options{Names: func(string) string { return "any" }})
	e := elector(t, local.New(), c.Hooks())
	for _, name := range []string{"a", "b"} {
		if _, err := e.RunIfLeader(t.Context(), name, nothing); err != nil {
			t.Fatal(err)
		}
	}
	if n := scrape(t, r)["leader_runs_total{name=any,outcome=elected}"]; n != 2 {
		t.Errorf("%v runs of any name, want 2", n)
	}
}

func TestCollector_NamesMetricsAsPrometheusWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := history.NewRecorder(stuck(nil), nil)
		c, r := register(t, &promleader.Options{History: recorder, AOPNames: true})
		aDay(t, c.Hooks())
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	})
}
