package child

import (
	"errors"
	"time"
)

// Command is what to run.
type Command struct {
	Path string   // of the program
	Args []string // with the program's name first
	Env  []string // all of it
	// Grace is how long the group has between TERM and KILL.
	Grace time.Duration
	// Reserve is how long before the deadline KILL is sent.
	Reserve time.Duration
}

// Status is how a command ended.
type Status struct {
	// Code is what a shell would say: the exit code, or 128 and the number of the signal.
	Code int
	// Cause is why.
	Cause Cause
}

// Cause is why a command ended.
type Cause string

// The causes.
const (
	ByItself   Cause = "itself"   // or by a signal that was passed on, or by a stranger
	ByDeadline Cause = "deadline" // TERM was sent because the deadline came near
	ByStop     Cause = "stop"     // Stop or Kill was called
	GuardDied  Cause = "guard"    // the guard was killed, and the group with it
)

var (
	// ErrUnsupported says that the system has no process groups.
	ErrUnsupported = errors.New("commands cannot be run on this system, which has no process groups")
	// ErrLate says that the deadline came before the command could be started.
	ErrLate = errors.New("the lease was over before the command could be started")
	// ErrUncertain says that the command was not seen to start, and may have been started all the same. Whatever else is
	// an error of Start has started nothing.
	ErrUncertain = errors.New("it is not known whether the command was started")
	// ErrNotRun says that the system refused to run the command.
	ErrNotRun = errors.New("the command cannot be run")
)
