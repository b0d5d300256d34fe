package sqlleader

import "time"

func wallClock() Reading {
	now := time.Now().UnixMicro()
	return Reading{Clock: "wall", Now: now, Wall: now}
}

// micros rounds d up to whole microseconds.
func micros(d time.Duration) int64 {
	n := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}
