package sqlleader

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is the number of CLOCK_BOOTTIME, see clock_gettime(2).
const clockBoottime = 7

// bootClock names the clock of this boot as this process sees it: processes in another time namespace read another
// CLOCK_BOOTTIME. It is "" if it cannot be told.
var bootClock = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	// Kernels without time namespaces have no such link, and one clock.
	namespace, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		namespace = "time"
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
})

// machineClock reads CLOCK_BOOTTIME, which counts on in sleep and is never set.
func machineClock() Reading {
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	name := bootClock()
	if errno != 0 || name == "" {
		return wallClock()
	}
	return Reading{Clock: name, Now: ts.Nano() / 1000, Wall: time.Now().UnixMicro()}
}
