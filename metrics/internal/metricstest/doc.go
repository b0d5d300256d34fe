// Package metricstest has the tests of the metrics that need more than the modules of the metrics should: a Redis, both
// modules together, and the files of docs/operations.
package metricstest
