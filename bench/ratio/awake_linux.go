package main

import (
	"syscall"
	"unsafe"
)

// schedIdle is the scheduling policy of Linux under which a thread runs only where no other wants to, see sched(7).
const schedIdle = 5

// yieldAlways gives this thread the lowest priority that there is, and reports whether that worked.
func yieldAlways() bool {
	var priority int32
	_, _, errno := syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, 0, schedIdle, uintptr(unsafe.Pointer(&priority)))
	return errno == 0
}
