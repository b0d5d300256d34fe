//go:build race

package metricstest

const raceEnabled = true
