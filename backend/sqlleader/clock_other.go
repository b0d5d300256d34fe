//go:build !linux

package sqlleader

// machineClock reads the wall clock: there is no other one here that two processes can compare.
func machineClock() Reading { return wallClock() }
