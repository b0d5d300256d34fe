package child

import "syscall"

// own makes the command the leader of a new group, and lets the kernel kill it when the thread that started it ends.
func own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// itself is the running program, also after its file was replaced.
func itself() (string, error) { return "/proc/self/exe", nil }
