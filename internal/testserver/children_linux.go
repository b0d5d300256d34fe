package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// children returns the ids of the processes that a process has started, in order.
func children(parent int) ([]int, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			return nil, err
		}
		if stat := statOf(pid); len(stat) > 1 && stat[1] == strconv.Itoa(parent) {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found, nil
}

// alive reports whether a process runs. One that nobody waited for is dead, though its entry stays.
func alive(pid int) bool {
	stat := statOf(pid)
	return len(stat) > 0 && stat[0] != "Z" && stat[0] != "X"
}

// isStopped reports whether no thread of a process goes on. After SIGSTOP on a busy machine some do for a while.
func isStopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
	return err != nil || !slices.ContainsFunc(threads, func(thread string) bool {
		stat := statIn(thread)
		return len(stat) > 0 && !slices.Contains([]string{"T", "t", "Z", "X"}, stat[0])
	})
}

// statOf returns what the kernel tells about a process after its name: the state, the parent's id and more. It is
// empty when there is no such process.
func statOf(pid int) []string { return statIn(fmt.Sprintf("/proc/%d/stat", pid)) }

func statIn(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	// The name is in brackets and may hold some itself.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
	return strings.Fields(rest)
}
