//go:build unix

package command

import (
	"os"
	"syscall"
)

// passedOn are the signals that a command gets.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
}

// endsWait reports whether a signal ends the tool while no command runs.
func endsWait(sig os.Signal) bool { return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 }
