package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// own makes the command the leader of a new group, and lets the kernel kill it when the thread that started it ends.
func own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes this process the parent of what loses its own below it, whose ends it then sees. The first process of a
// container often does not look, and what has ended and is not reaped would count as alive.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// itself is the running program, also after its file was replaced.
func itself() (string, error) { return "/proc/self/exe", nil }
