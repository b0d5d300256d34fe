//go:build unix && !linux

package child

import "golang.org/x/sys/unix"

// clock counts the time in which the machine sleeps where the system lets it.
const clock = unix.CLOCK_MONOTONIC
