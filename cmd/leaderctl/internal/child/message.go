//go:build unix

package child

import (
	"fmt"
	"time"
)

// order is what the tool tells the guard. The first one has a command. Both directions are streams of package gob,
// which leaves arguments as they are that are not UTF-8.
type order struct {
	Command *Command
	Until   instant // the new deadline, if it is later
	Signal  int     // for the group
	Stop    bool    // TERM now, and KILL after the grace
	Kill    bool
}

// report is what the guard tells the tool: that it is about to start the command, then a group, or why there is none, then
// a status.
type report struct {
	Starts bool
	Group  int
	Late   bool   // ErrLate
	Failed string // ErrNotRun
	Status *Status
}

// err is why there is no group; nil if there is one.
func (r *report) err() error {
	switch {
	case r.Late:
		return ErrLate
	case r.Failed != "":
		return fmt.Errorf("%w: %s", ErrNotRun, r.Failed)
	}
	return nil
}

// instant is in nanoseconds of the clock that now reads, which is the same in all processes and does not step. Where the
// system has such a clock it counts the time asleep.
type instant int64

// at is the instant of t, or an earlier one if this process is stopped meanwhile.
func at(t time.Time) instant {
	reading := now() // before the time left is computed
	return reading + instant(time.Until(t))
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

// left is how long it is until i.
func (i instant) left() time.Duration { return time.Duration(i - now()) }
