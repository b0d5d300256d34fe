package otelleader

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/goleader/leader/metrics"
)

// sink keeps the figures.
type sink struct {
	runs            *tally
	acquireDuration metric.Float64Histogram
	runDuration     metric.Float64Histogram
	active          *tally
	acquireFailures *tally
	acquired        *tally
	lost            *tally
	renewals        *tally
	renewalFailures *tally
	renewalDuration metric.Float64Histogram
	releases        *tally
	releaseFailures *tally
	abandoned       *tally
	gap             metric.Float64Histogram

	names sync.Map // name to *series
}

var _ metrics.Sink = (*sink)(nil)

func newSink(m metric.Meter) (*sink, error) {
	waits := []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60}
	runs := []float64{0.01, 0.1, 1, 10, 60, 300, 1800, 3600, 21600, 86400}
	i := instruments{meter: m}
	s := &sink{
		runs: i.counter("leader.runs", "{run}", "Runs and terms of campaigns that have ended."),
		acquireDuration: i.seconds("leader.acquire.duration",
			"From the call until the lease was acquired, of runs that got it.", waits),
		runDuration: i.seconds("leader.run.duration", "How long runs held their leases.", runs),
		active:      i.upDown("leader.active_leases", "{lease}", "Leases held by this process."),
		acquireFailures: i.counter("leader.acquire.failures", "{attempt}",
			"Attempts to acquire a lease at which the store failed."),
		acquired: i.counter("leader.leases.acquired", "{lease}", "Leases that were acquired."),
		lost:     i.counter("leader.leases.lost", "{lease}", "Leases that ended before their holder was done."),
		renewals: i.counter("leader.renewals", "{renewal}", "Renewals that succeeded."),
		renewalFailures: i.counter("leader.renewal.failures", "{renewal}",
			"Renewals that failed; a lease is not lost by one."),
		renewalDuration: i.seconds("leader.renewal.duration", "How long renewals that succeeded took.", waits),
		releases:        i.counter("leader.releases", "{release}", "Releases of which the store was told."),
		releaseFailures: i.counter("leader.release.failures", "{release}",
			"Releases of which the store could not be told."),
		abandoned: i.counter("leader.calls.abandoned", "{call}",
			"Calls that were given up because the store's client did not return in time."),
		gap: i.seconds("leader.handover.gap", "For how long nobody led between two leaders.", waits),
	}
	return s, i.err
}

// series are those of one name that every run touches.
type series struct {
	succeeded, active, acquired, renewals, releases *cell

	record []metric.RecordOption // of histograms
}

// of returns the series of a name. They begin at 0 together with those an alert looks at, because the increase of a
// series that begins at 1 is not seen.
func (s *sink) of(name string) *series {
	if known, ok := s.names.Load(name); ok {
		return known.(*series)
	}
	for _, cause := range []string{metrics.Expired, metrics.TakenOver, metrics.Abandoned, metrics.Other} {
		s.lost.of(labels{name: name, key: keyCause, value: cause})
	}
	for _, reason := range []string{"", metrics.NoReturn, metrics.Unguarded} {
		s.runs.of(outcome(name, metrics.ActionFailed, reason))
	}
	s.runs.of(outcome(name, metrics.Elected, metrics.Unguarded))
	for _, reason := range append(metrics.Kinds(), metrics.Unsupported) {
		s.runs.of(outcome(name, metrics.NotRun, reason))
	}
	for _, kind := range metrics.Kinds() {
		l := labels{name: name, key: keyKind, value: kind}
		s.acquireFailures.of(l)
		s.renewalFailures.of(l)
		s.releaseFailures.of(l)
	}
	only := labels{name: name}
	known, _ := s.names.LoadOrStore(name, &series{
		succeeded: s.runs.of(outcome(name, metrics.Elected, "")),
		active:    s.active.of(only),
		acquired:  s.acquired.of(only),
		renewals:  s.renewals.of(only),
		releases:  s.releases.of(only),
		record:    []metric.RecordOption{metric.WithAttributeSet(only.set())},
	})
	return known.(*series)
}

// outcome labels a run. Without a reason the attribute is missing.
func outcome(name, outcome, reason string) labels {
	l := labels{name: name, key: keyOutcome, value: outcome}
	if reason != "" {
		l.key2, l.value2 = keyReason, reason
	}
	return l
}

func (s *sink) RunStarted(_ context.Context, name string) { s.of(name) }

func (s *sink) RunFinished(ctx context.Context, name string, r metrics.Run) {
	of := s.of(name)
	if r.Outcome == metrics.Elected && r.Reason == "" {
		of.succeeded.n.Add(1)
	} else {
		s.runs.of(outcome(name, r.Outcome, r.Reason)).n.Add(1)
	}
	if r.Led() {
		s.acquireDuration.Record(ctx, r.Result.Waited.Seconds(), of.record...)
		s.runDuration.Record(ctx, r.Result.Lease.Held.Seconds(), of.record...)
	}
}

func (s *sink) AcquireFailed(_ context.Context, name, kind string) {
	s.acquireFailures.of(labels{name: name, key: keyKind, value: kind}).n.Add(1)
}

func (s *sink) LeaseAcquired(_ context.Context, name string) {
	of := s.of(name)
	of.acquired.n.Add(1)
	of.active.n.Add(1)
}

func (s *sink) LeaseEnded(_ context.Context, name string) { s.of(name).active.n.Add(-1) }

func (s *sink) LeaseLost(_ context.Context, name, cause string) {
	s.lost.of(labels{name: name, key: keyCause, value: cause}).n.Add(1)
}

func (s *sink) Renewed(ctx context.Context, name string, took time.Duration) {
	s.of(name).renewals.n.Add(1)
	s.renewalDuration.Record(ctx, took.Seconds())
}

func (s *sink) RenewFailed(_ context.Context, name, kind string) {
	s.renewalFailures.of(labels{name: name, key: keyKind, value: kind}).n.Add(1)
}

func (s *sink) Released(_ context.Context, name string) { s.of(name).releases.n.Add(1) }

func (s *sink) ReleaseFailed(_ context.Context, name, kind string) {
	s.releaseFailures.of(labels{name: name, key: keyKind, value: kind}).n.Add(1)
}

func (s *sink) CallAbandoned(_ context.Context, name, op string) {
	s.abandoned.of(labels{name: name, key: keyOp, value: op}).n.Add(1)
}

func (s *sink) HandedOver(ctx context.Context, name string, gap time.Duration) {
	s.gap.Record(ctx, gap.Seconds(), s.of(name).record...)
}
