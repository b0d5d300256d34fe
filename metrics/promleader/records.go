package promleader

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goleader/leader/history"
)

var (
	storedDesc = prometheus.NewDesc("leader_history_records_stored_total",
		"Records of runs that the history's sink has stored.", nil, nil)
	refusedDesc = prometheus.NewDesc("leader_history_records_refused_total",
		"Records of runs that the history's sink could not store.", nil, nil)
	droppedDesc = prometheus.NewDesc("leader_history_records_dropped_total",
		"Records of runs that found no room to wait for the history's sink.", nil, nil)
)

// records shows the counts of a recorder.
type records struct{ recorder *history.Recorder }

// Describe implements prometheus.Collector.
func (records) Describe(descs chan<- *prometheus.Desc) {
	descs <- storedDesc
	descs <- refusedDesc
	descs <- droppedDesc
}

// Collect implements prometheus.Collector.
func (r records) Collect(figures chan<- prometheus.Metric) {
	stats := r.recorder.Stats()
	for desc, n := range map[*prometheus.Desc]uint64{
		storedDesc: stats.Stored, refusedDesc: stats.Refused, droppedDesc: stats.Dropped,
	} {
		figures <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
}
