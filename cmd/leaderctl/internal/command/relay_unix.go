//go:build unix

package command

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn are the signals that a command gets.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
}

// endsWait reports whether a signal ends the tool while no command runs.
func endsWait(sig os.Signal) bool { return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 }

// asksForEnd reports whether a signal asks a command to end. HUP is none: many read their configuration again.
func asksForEnd(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGTERM
}

// outliveReaders keeps this process alive when nobody reads its output any more, until it ends. The signal is caught and
// not ignored, so that it has its default effect on the command.
func outliveReaders() {
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}
