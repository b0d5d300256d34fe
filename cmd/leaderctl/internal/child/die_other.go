//go:build unix && !linux

package child

import (
	"os"
	"syscall"
)

// own makes the command the leader of a new group.
func own() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: what loses its parent goes to the first process of the system.
func adopt() {}

// itself is the running program.
func itself() (string, error) { return os.Executable() }
