//go:build unix

package backendtest

import (
	"os"
	"syscall"
)

// canStop says that processes can be stopped and continued here.
const canStop = true

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
