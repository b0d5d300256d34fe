//go:build unix && !linux

package child

import (
	"os"
	"syscall"
)

// own makes the command the leader of a new group.
func own() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// itself is the running program.
func itself() (string, error) { return os.Executable() }
