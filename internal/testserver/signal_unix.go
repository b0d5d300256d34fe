//go:build unix

package testserver

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// stop freezes a process and its children, and returns the ids of these.
func stop(p *os.Process) ([]int, error) {
	// Itself first: a stopped process starts no more children.
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	var known []int
	for {
		now, err := children(p.Pid)
		if err != nil || slices.Equal(now, known) {
			return known, err
		}
		signal(now, syscall.SIGSTOP)
		known = now
	}
}

// freeze is stop, and returns when nothing goes on any more, or after killTimeout.
func freeze(p *os.Process) ([]int, error) {
	known, err := stop(p)
	if err != nil {
		return known, err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	goesOn := func(pid int) bool { return !isStopped(pid) }
	end := time.Now().Add(killTimeout)
	for (goesOn(p.Pid) || slices.ContainsFunc(known, goesOn)) && time.Now().Before(end) {
		<-look.C
	}
	return known, nil
}

// cont lets a process and its children go on after stop.
func cont(p *os.Process) error {
	stopped, err := children(p.Pid)
	if err != nil {
		return err
	}
	signal(stopped, syscall.SIGCONT)
	return p.Signal(syscall.SIGCONT)
}

// kill ends a process and its children as kill -9 does, and returns when the children are gone, or are not after
// killTimeout. Those of a database would hold on to its data for a moment, and the next start would fail.
func kill(p *os.Process) {
	orphans, _ := stop(p) // What was found by then is the best there is.
	_ = p.Kill()          // The only error is that it has just ended.
	signal(orphans, syscall.SIGKILL)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(killTimeout); slices.ContainsFunc(orphans, alive) && time.Now().Before(end); {
		<-look.C
	}
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // The only error is that it has just ended.
	}
}
