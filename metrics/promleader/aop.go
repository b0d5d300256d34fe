package promleader

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goleader/leader/metrics"
)

// maxExceptions is how many types of errors have a series of their own.
const maxExceptions = 50

// aopSink keeps the figures that bluetape4k-leader has, under its names.
type aopSink struct {
	attempts          *prometheus.CounterVec
	acquired          *prometheus.CounterVec
	acquireDuration   *prometheus.SummaryVec
	notAcquired       *prometheus.CounterVec
	executionDuration *prometheus.SummaryVec
	taskFailed        *prometheus.CounterVec
	active            *prometheus.GaugeVec

	exception func(name string) string
}

func newAOPSink() *aopSink {
	return &aopSink{
		attempts: counter("leader_aop_attempts_total", "Runs that asked for their lease.", "lock_name"),
		acquired: counter("leader_aop_acquired_total", "Leases that were acquired.", "lock_name"),
		acquireDuration: summary("leader_aop_acquire_duration_seconds",
			"From the call until the lease was acquired."),
		notAcquired: counter("leader_aop_lock_not_acquired_total",
			"Runs without a lease.", "lock_name", "reason"),
		executionDuration: summary("leader_aop_execution_duration_seconds",
			"How long runs held their leases."),
		taskFailed: counter("leader_aop_task_failed_total",
			"Runs whose action failed, by the type of its error.", "lock_name", "exception"),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leader_aop_active", Help: "Leases held by this process.",
		}, []string{"lock_name"}),
		exception: metrics.FirstNames(maxExceptions),
	}
}

func summary(name, help string) *prometheus.SummaryVec {
	return prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help}, []string{"lock_name"})
}

func (s *aopSink) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		s.attempts, s.acquired, s.acquireDuration, s.notAcquired, s.executionDuration, s.taskFailed, s.active,
	}
}

func (s *aopSink) RunStarted(_ context.Context, name string) { s.attempts.WithLabelValues(name).Inc() }

func (s *aopSink) RunFinished(_ context.Context, name string, r metrics.Run) {
	switch {
	case r.Result.Unguarded:
		s.notAcquired.WithLabelValues(name, "FAIL_OPEN_FORCED").Inc()
	case r.Led():
		s.acquireDuration.WithLabelValues(name).Observe(r.Result.Waited.Seconds())
		s.executionDuration.WithLabelValues(name).Observe(r.Result.Lease.Held.Seconds())
	case r.Reason == metrics.StoreFailed, r.Outcome == metrics.NotRun && r.Reason != metrics.Canceled:
		s.notAcquired.WithLabelValues(name, "BACKEND_ERROR").Inc()
	default:
		s.notAcquired.WithLabelValues(name, "CONTENTION").Inc()
	}
	if r.Outcome == metrics.ActionFailed {
		s.taskFailed.WithLabelValues(name, s.exception(simpleType(r.Result.Err))).Inc()
	}
}

// simpleType is the Go type of an error without its package and without pointers.
func simpleType(err error) string {
	t := strings.TrimLeft(fmt.Sprintf("%T", err), "*")
	return t[strings.LastIndexByte(t, '.')+1:]
}

func (s *aopSink) LeaseAcquired(_ context.Context, name string) {
	s.acquired.WithLabelValues(name).Inc()
	s.active.WithLabelValues(name).Inc()
}

func (s *aopSink) LeaseEnded(_ context.Context, name string) { s.active.WithLabelValues(name).Dec() }

// both feeds the sink and that of the other names; the latter wants fewer figures.
type both struct {
	*sink

	aop *aopSink
}

func (b both) RunStarted(ctx context.Context, name string) {
	b.sink.RunStarted(ctx, name)
	b.aop.RunStarted(ctx, name)
}

func (b both) RunFinished(ctx context.Context, name string, r metrics.Run) {
	b.sink.RunFinished(ctx, name, r)
	b.aop.RunFinished(ctx, name, r)
}

func (b both) LeaseAcquired(ctx context.Context, name string) {
	b.sink.LeaseAcquired(ctx, name)
	b.aop.LeaseAcquired(ctx, name)
}

func (b both) LeaseEnded(ctx context.Context, name string) {
	b.sink.LeaseEnded(ctx, name)
	b.aop.LeaseEnded(ctx, name)
}
