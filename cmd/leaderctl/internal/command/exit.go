package command

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// The exit codes of the tool itself. They leave room for those of commands: shells use 126 and up, timeout 124 and 125,
// xargs 123, BSD's sysexits 64 to 78, daemontools 100 and 111, and hardly anybody what is between.
const (
	exitOK          = 0
	exitUsage       = 113 // flags, arguments or configuration
	exitSkipped     = 114 // another node leads, or the run key was used; the command did not run
	exitLost        = 115 // the lease was over before the command had ended, which was ended for that
	exitUnavailable = 116 // the store could not be asked
	exitRefused     = 117 // the store refused access, is misconfigured, or lacks the ability
	exitInternal    = 118 // the tool could not do its part
	exitFindings    = 119 // doctor found something
	exitNotCurrent  = 120 // release: the name is not taken under that fence

	exitCannotRun = 126 // the command is no program
	exitNotFound  = 127 // there is no such command
	exitSignal    = 128 // and the number of the signal
)

// exitError ends the tool with a code.
type exitError struct {
	code int
	err  error // nil if all was said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit makes err end the tool with code.
func exit(code int, err error) error { return &exitError{code, err} }

// usage makes err one of the user's.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return exit(exitUsage, err)
}

// signaled is the cause of a context that a signal ended.
type signaled struct{ signal syscall.Signal }

func (s signaled) Error() string { return s.signal.String() }

// codeOf is the exit code for an error.
func codeOf(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if s, ok := errors.AsType[signaled](err); ok {
		return exitSignal + int(s.signal)
	}
	switch {
	case errors.Is(err, leader.ErrInvalidName), errors.Is(err, leader.ErrInvalidOption):
		return exitUsage
	case errors.Is(err, leader.ErrUnsupported), errors.Is(err, leader.ErrDenied), errors.Is(err, leader.ErrMisconfigured):
		return exitRefused
	case errors.Is(err, leader.ErrLeaseLost):
		return exitLost
	case errors.Is(err, leader.ErrNotElected):
		return exitSkipped
	}
	return codeOfStore(err)
}

// codeOfStore is the exit code for an error of a store.
func codeOfStore(err error) int {
	if failure, ok := errors.AsType[*leader.BackendError](err); ok {
		err = backend.WithKind(failure.Err, failure.Kind)
	} else if backend.KindOf(err) == backend.Unknown && !errors.Is(err, context.DeadlineExceeded) {
		return exitInternal
	}
	switch backend.KindOf(err) {
	case backend.Denied, backend.Misconfigured:
		return exitRefused
	case backend.Unavailable, backend.Unknown:
	}
	return exitUnavailable
}
