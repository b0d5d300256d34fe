//go:build unix

package main_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// jobFlags say how a job behaves.
type jobFlags struct {
	folder   string        // for the files of a name
	mark     string        // of the run
	work     time.Duration // how long it takes
	stubborn bool          // it ignores TERM
	fork     bool          // it starts a child, which outlives it unless it is killed
}

// job is the command line of a job.
func job(o *jobFlags) []string {
	return []string{
		jobProgram, "-folder", o.folder, "-mark", o.mark, "-work", o.work.String(),
		"-stubborn=" + strconv.FormatBool(o.stubborn), "-fork=" + strconv.FormatBool(o.fork),
	}
}

// started waits for a job to have written its group down, and returns it; 0 if ended is closed before.
func (o *jobFlags) started(ended <-chan struct{}) int {
	for {
		text, err := os.ReadFile(filepath.Join(o.folder, o.mark))
		if pid, bad := strconv.Atoi(string(text)); err == nil && bad == nil && pid > 0 {
			return pid
		}
		select {
		case <-ended:
			return 0
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// lastAlive is when a job that has started was last alive, as it says itself: whoever looks may be late.
func (o *jobFlags) lastAlive(t testing.TB) time.Time {
	t.Helper()
	info, err := os.Stat(filepath.Join(o.folder, o.mark))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// entry is a line of a journal.
type entry struct {
	what  string
	fence uint64
	mark  string
}

func readJournal(t testing.TB, folder string) []entry {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, "journal"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []entry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		fence, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		list = append(list, entry{fields[0], fence, fields[2]})
	}
	return list
}

// alive lists the processes of a group that can still do something.
func alive(group int) []string {
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return nil
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 { // no such folder
		return []string{strconv.Itoa(group)}
	}
	var list []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // state, parent, group
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			list = append(list, string(text))
		}
	}
	return list
}
