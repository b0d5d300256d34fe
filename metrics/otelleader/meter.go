package otelleader

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/goleader/leader"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/metrics"
)

// MeterOptions configure a [Meter]. The zero value means the defaults.
type MeterOptions struct {
	// Names turns a name into one of few, and answers the same for a name each time. It is called concurrently. The
	// default is metrics.FirstNames(metrics.DefaultNames): the first hundred names stay, all others are "other".
	Names func(name string) string
	// History is the recorder of which the counts of records are shown. Without one there are no such figures.
	History *history.Recorder
}

// Meter keeps the figures of electors. All methods may be called concurrently. Use [NewMeter]: the zero value is not
// ready.
type Meter struct{ observer *metrics.Observer }

// NewMeter returns a meter that makes its instruments with p. The error is that of an instrument. opts may be nil.
func NewMeter(p metric.MeterProvider, opts *MeterOptions) (*Meter, error) {
	if opts == nil {
		opts = &MeterOptions{}
	}
	m := p.Meter(scope)
	s, err := newSink(m)
	if err != nil {
		return nil, err
	}
	if opts.History != nil {
		if err := observeHistory(m, opts.History); err != nil {
			return nil, err
		}
	}
	return &Meter{metrics.NewObserver(s, opts.Names)}, nil
}

// Hooks returns the hooks that feed the figures, for [leader.WithHooks]. Joined after those of a [Tracer], they let
// exemplars point to its spans.
func (m *Meter) Hooks() leader.Hooks { return m.observer.Hooks() }

// Watch follows who leads under a name that somebody is to lead all the time, and feeds leader.handover.gap, until ctx
// ends; see [metrics.Observer.Watch].
func (m *Meter) Watch(ctx context.Context, w metrics.Watcher, name string) error {
	return m.observer.Watch(ctx, w, name)
}

// observeHistory shows the counts of a recorder whenever figures are collected.
func observeHistory(m metric.Meter, r *history.Recorder) error {
	i := instruments{meter: m}
	count := func(name, help string, of func(history.Stats) uint64) {
		i.counted(name, "{record}", help, func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(of(r.Stats()))) //nolint:gosec // a count of records
			return nil
		})
	}
	count("leader.history.records.stored", "Records of runs that the history's sink has stored.",
		func(s history.Stats) uint64 { return s.Stored })
	count("leader.history.records.refused", "Records of runs that the history's sink could not store.",
		func(s history.Stats) uint64 { return s.Refused })
	count("leader.history.records.dropped", "Records of runs that found no room to wait for the history's sink.",
		func(s history.Stats) uint64 { return s.Dropped })
	return i.err
}
