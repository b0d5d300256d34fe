//go:build !unix

package command

import "os"

// passedOn are the signals that a command would get.
var passedOn = []os.Signal{os.Interrupt}

// endsWait reports whether a signal ends the tool while no command runs.
func endsWait(os.Signal) bool { return true }

// asksForEnd reports whether a signal asks a command to end.
func asksForEnd(os.Signal) bool { return true }

// outliveReaders does nothing: there is no such signal.
func outliveReaders() {}
