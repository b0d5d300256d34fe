//go:build !unix

package command

import "os"

// passedOn are the signals that a command would get.
var passedOn = []os.Signal{os.Interrupt}

// endsWait reports whether a signal ends the tool while no command runs.
func endsWait(os.Signal) bool { return true }
