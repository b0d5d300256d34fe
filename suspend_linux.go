package leader

import (
	"syscall"
	"time"
	"unsafe"
)

// Linux's clock numbers, see clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspendedTime is how long the machine has slept since it was started: CLOCK_BOOTTIME counts sleep, CLOCK_MONOTONIC
// does not.
func suspendedTime() (time.Duration, bool) {
	for range 10 {
		before, ok1 := gettime(clockMonotonic)
		boot, ok2 := gettime(clockBoottime)
		after, ok3 := gettime(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0, false
		}
		// A pause between the readings would look like sleep.
		if after-before < time.Millisecond {
			return boot - after, true
		}
	}
	return 0, false
}

func gettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
