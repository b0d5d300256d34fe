//go:build unix && !linux

package testserver

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// children returns the ids of the processes that a process has started, in order.
func children(parent int) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout) //nolint:forbidigo // No test's concern.
	defer cancel()
	table, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	var found []int
	for line := range strings.Lines(string(table)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err != nil {
			return nil, err
		}
		if ppid == parent {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found, nil
}

// alive reports whether a process runs.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// isStopped takes the signal for what it does: what the threads of a process do is not told alike everywhere.
func isStopped(int) bool { return true }
