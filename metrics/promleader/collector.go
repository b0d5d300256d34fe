package promleader

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goleader/leader"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/metrics"
)

// Options configure a [Collector]. The zero value means the defaults.
type Options struct {
	// Names turns a name into one of few, and answers the same for a name each time. It is called concurrently. The
	// default is metrics.FirstNames(metrics.DefaultNames): the first hundred names stay, all others are "other".
	Names func(name string) string
	// AcquireBuckets are the upper bounds, in seconds, of the histograms of waits and gaps: [DefaultAcquireBuckets] if
	// nil.
	AcquireBuckets []float64
	// RunBuckets are those of the histogram of runs: [DefaultRunBuckets] if nil.
	RunBuckets []float64
	// History is the recorder of which the counts of records are shown. Without one there are no such metrics.
	History *history.Recorder
	// AOPNames adds the metrics leader_aop_… that bluetape4k-leader has through Micrometer, with the labels lock_name,
	// reason and exception, so that its dashboards go on. Its timers are summaries, without the _max that decays.
	AOPNames bool
}

// DefaultAcquireBuckets returns buckets from a millisecond to a minute.
func DefaultAcquireBuckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60}
}

// DefaultRunBuckets returns buckets from ten milliseconds to a day.
func DefaultRunBuckets() []float64 {
	return []float64{0.01, 0.1, 1, 10, 60, 300, 1800, 3600, 21600, 86400}
}

// Collector is a prometheus.Collector of the figures of electors. All methods may be called concurrently. Use [New]: the
// zero value is not ready.
type Collector struct {
	observer *metrics.Observer
	names    func(name string) string
	sink     *sink
	parts    []prometheus.Collector
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector that is still to be registered. It starts nothing. opts may be nil.
func New(opts *Options) *Collector {
	if opts == nil {
		opts = &Options{}
	}
	c := &Collector{names: opts.Names, sink: newSink(opts)}
	if c.names == nil {
		c.names = metrics.FirstNames(metrics.DefaultNames)
	}
	c.parts = c.sink.collectors()
	var fed metrics.Sink = c.sink
	if opts.AOPNames {
		aop := newAOPSink()
		c.parts = append(c.parts, aop.collectors()...)
		fed = both{c.sink, aop}
	}
	c.observer = metrics.NewObserver(fed, c.names)
	if opts.History != nil {
		c.parts = append(c.parts, records{opts.History})
	}
	return c
}

// Hooks returns the hooks that feed the collector, for [leader.WithHooks].
func (c *Collector) Hooks() leader.Hooks { return c.observer.Hooks() }

// Watch follows who leads under a name that somebody is to lead all the time, and feeds leader_handover_gap_seconds, until
// ctx ends; see [metrics.Observer.Watch]. The series begins at once, so that an alert knows which names those are.
func (c *Collector) Watch(ctx context.Context, w metrics.Watcher, name string) error {
	bounded := c.names(name)
	c.sink.of(bounded)
	c.sink.gap.WithLabelValues(bounded)
	return c.observer.Watch(ctx, w, name)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, part := range c.parts {
		part.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(figures chan<- prometheus.Metric) {
	for _, part := range c.parts {
		part.Collect(figures)
	}
}
