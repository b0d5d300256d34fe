//go:build !race

package promleader_test

// slower is 1 where nothing slows things down.
const slower = 1
