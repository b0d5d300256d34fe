package child

import "golang.org/x/sys/unix"

// clock counts also the time in which the machine sleeps.
const clock = unix.CLOCK_BOOTTIME
