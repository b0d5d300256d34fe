//go:build !linux

package sqliteleader_test

import (
	"testing"
	"time"
)

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	b.Skip("CPU time is read on Linux only")
	return 0
}
