//go:build race

package promleader_test

// slower is how much longer things take with the race detector, at most.
const slower = 20
