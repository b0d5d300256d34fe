package otelleader

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments makes instruments and keeps the errors.
type instruments struct {
	meter metric.Meter
	err   error
}

func (i *instruments) counter(name, unit, help string) *tally {
	t := &tally{}
	i.counted(name, unit, help, t.observe)
	return t
}

func (i *instruments) counted(name, unit, help string, ask func(context.Context, metric.Int64Observer) error) {
	_, err := i.meter.Int64ObservableCounter(name,
		metric.WithUnit(unit), metric.WithDescription(help), metric.WithInt64Callback(ask))
	i.err = errors.Join(i.err, err)
}

func (i *instruments) upDown(name, unit, help string) *tally {
	t := &tally{}
	_, err := i.meter.Int64ObservableUpDownCounter(name,
		metric.WithUnit(unit), metric.WithDescription(help), metric.WithInt64Callback(t.observe))
	i.err = errors.Join(i.err, err)
	return t
}

func (i *instruments) seconds(name, help string, buckets []float64) metric.Float64Histogram {
	h, err := i.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help),
		metric.WithExplicitBucketBoundaries(buckets...))
	i.err = errors.Join(i.err, err)
	return h
}
