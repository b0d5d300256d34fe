package backendtest

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is the number of CLOCK_BOOTTIME, see clock_gettime(2). It is never set, and one for all processes.
const clockBoottime = 7

// thisMoment reads the clock.
func thisMoment() moment {
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return moment(time.Now().UnixNano())
	}
	return moment(ts.Nano())
}
