package promleader

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goleader/leader/metrics"
)

// sink keeps the figures.
type sink struct {
	runs            *prometheus.CounterVec
	acquireDuration *prometheus.HistogramVec
	runDuration     *prometheus.HistogramVec
	active          *prometheus.GaugeVec
	acquireFailures *prometheus.CounterVec
	acquired        *prometheus.CounterVec
	lost            *prometheus.CounterVec
	renewals        *prometheus.CounterVec
	renewalFailures *prometheus.CounterVec
	renewalDuration prometheus.Histogram
	releases        *prometheus.CounterVec
	releaseFailures *prometheus.CounterVec
	abandoned       *prometheus.CounterVec
	gap             *prometheus.HistogramVec

	names sync.Map // name to *series
}

var _ metrics.Sink = (*sink)(nil)

func newSink(opts *Options) *sink {
	waits, runs := opts.AcquireBuckets, opts.RunBuckets
	if waits == nil {
		waits = DefaultAcquireBuckets()
	}
	if runs == nil {
		runs = DefaultRunBuckets()
	}
	return &sink{
		runs: counter("leader_runs_total",
			"Runs and terms of campaigns that have ended.", "name", "outcome", "reason"),
		acquireDuration: histogram("leader_acquire_duration_seconds",
			"From the call until the lease was acquired, of runs that got it.", waits),
		runDuration: histogram("leader_run_duration_seconds",
			"How long runs held their leases.", runs),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leader_active_leases", Help: "Leases held by this process.",
		}, []string{"name"}),
		acquireFailures: counter("leader_acquire_failures_total",
			"Attempts to acquire a lease at which the store failed.", "name", "kind"),
		acquired: counter("leader_leases_acquired_total",
			"Leases that were acquired.", "name"),
		lost: counter("leader_leases_lost_total",
			"Leases that ended before their holder was done.", "name", "cause"),
		renewals: counter("leader_renewals_total",
			"Renewals that succeeded.", "name"),
		renewalFailures: counter("leader_renewal_failures_total",
			"Renewals that failed; a lease is not lost by one.", "name", "kind"),
		renewalDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "leader_renewal_duration_seconds", Help: "How long renewals that succeeded took.", Buckets: waits,
		}),
		releases: counter("leader_releases_total",
			"Releases of which the store was told.", "name"),
		releaseFailures: counter("leader_release_failures_total",
			"Releases of which the store could not be told.", "name", "kind"),
		abandoned: counter("leader_calls_abandoned_total",
			"Calls that were given up because the store's client did not return in time.", "name", "op"),
		gap: histogram("leader_handover_gap_seconds",
			"For how long nobody led between two leaders.", waits),
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"name"})
}

func (s *sink) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		s.runs, s.acquireDuration, s.runDuration, s.active, s.acquireFailures, s.acquired, s.lost, s.renewals,
		s.renewalFailures, s.renewalDuration, s.releases, s.releaseFailures, s.abandoned, s.gap,
	}
}

// series are those of one name that every run touches.
type series struct {
	succeeded, acquired, renewals, releases prometheus.Counter
	acquireDuration, runDuration            prometheus.Observer
	active                                  prometheus.Gauge
}

// of returns the series of a name. They begin at 0 together with those an alert looks at, because the increase of a
// series that begins at 1 is not seen.
func (s *sink) of(name string) *series {
	if known, ok := s.names.Load(name); ok {
		return known.(*series)
	}
	for _, cause := range []string{metrics.Expired, metrics.TakenOver, metrics.Abandoned, metrics.Other} {
		s.lost.WithLabelValues(name, cause)
	}
	for _, reason := range []string{"", metrics.NoReturn, metrics.Unguarded} {
		s.runs.WithLabelValues(name, metrics.ActionFailed, reason)
	}
	s.runs.WithLabelValues(name, metrics.Elected, metrics.Unguarded)
	for _, reason := range append(metrics.Kinds(), metrics.Unsupported) {
		s.runs.WithLabelValues(name, metrics.NotRun, reason)
	}
	for _, kind := range metrics.Kinds() {
		s.acquireFailures.WithLabelValues(name, kind)
		s.renewalFailures.WithLabelValues(name, kind)
		s.releaseFailures.WithLabelValues(name, kind)
	}
	known, _ := s.names.LoadOrStore(name, &series{
		succeeded:       s.runs.WithLabelValues(name, metrics.Elected, ""),
		acquired:        s.acquired.WithLabelValues(name),
		renewals:        s.renewals.WithLabelValues(name),
		releases:        s.releases.WithLabelValues(name),
		acquireDuration: s.acquireDuration.WithLabelValues(name),
		runDuration:     s.runDuration.WithLabelValues(name),
		active:          s.active.WithLabelValues(name),
	})
	return known.(*series)
}

func (s *sink) RunStarted(_ context.Context, name string) { s.of(name) }

func (s *sink) RunFinished(_ context.Context, name string, r metrics.Run) {
	of := s.of(name)
	if r.Outcome == metrics.Elected && r.Reason == "" {
		of.succeeded.Inc()
	} else {
		s.runs.WithLabelValues(name, r.Outcome, r.Reason).Inc()
	}
	if r.Led() {
		of.acquireDuration.Observe(r.Result.Waited.Seconds())
		of.runDuration.Observe(r.Result.Lease.Held.Seconds())
	}
}

func (s *sink) AcquireFailed(_ context.Context, name, kind string) {
	s.acquireFailures.WithLabelValues(name, kind).Inc()
}

func (s *sink) LeaseAcquired(_ context.Context, name string) {
	of := s.of(name)
	of.acquired.Inc()
	of.active.Inc()
}

func (s *sink) LeaseEnded(_ context.Context, name string) { s.of(name).active.Dec() }

func (s *sink) LeaseLost(_ context.Context, name, cause string) {
	s.lost.WithLabelValues(name, cause).Inc()
}

func (s *sink) Renewed(_ context.Context, name string, took time.Duration) {
	s.of(name).renewals.Inc()
	s.renewalDuration.Observe(took.Seconds())
}

func (s *sink) RenewFailed(_ context.Context, name, kind string) {
	s.renewalFailures.WithLabelValues(name, kind).Inc()
}

func (s *sink) Released(_ context.Context, name string) { s.of(name).releases.Inc() }

func (s *sink) ReleaseFailed(_ context.Context, name, kind string) {
	s.releaseFailures.WithLabelValues(name, kind).Inc()
}

func (s *sink) CallAbandoned(_ context.Context, name, op string) {
	s.abandoned.WithLabelValues(name, op).Inc()
}

func (s *sink) HandedOver(_ context.Context, name string, gap time.Duration) {
	s.gap.WithLabelValues(name).Observe(gap.Seconds())
}
