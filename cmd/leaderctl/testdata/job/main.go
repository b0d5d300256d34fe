//go:build unix

// Command job is what the tests let the tool run. It holds a lock while it works, and writes down when it began and ended.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

type job struct {
	folder   string        // for the files of a name
	mark     string        // of the run
	work     time.Duration // how long it takes
	stubborn bool          // it ignores TERM
	fork     bool          // it starts a child, which has the lock too and outlives it unless it is killed
	sit      bool          // it is that child
}

func main() {
	var j job
	flag.StringVar(&j.folder, "folder", "", "")
	flag.StringVar(&j.mark, "mark", "", "")
	flag.DurationVar(&j.work, "work", 0, "")
	flag.BoolVar(&j.stubborn, "stubborn", false, "")
	flag.BoolVar(&j.fork, "fork", false, "")
	flag.BoolVar(&j.sit, "sit", false, "")
	flag.Parse()
	if j.stubborn {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if j.sit {
		time.Sleep(time.Minute)
		return
	}
	if err := j.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
}

func (j *job) run() error {
	lock, err := os.OpenFile(filepath.Join(j.folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(err, j.note("OVERLAP"))
	}
	if err := j.note("begin"); err != nil {
		return err
	}
	if j.fork {
		child := exec.Command(os.Args[0], append([]string{"-sit"}, os.Args[1:]...)...)
		child.ExtraFiles = []*os.File{lock}
		if err := child.Start(); err != nil {
			return err
		}
	}
	// Nobody is to read half of a number.
	path := filepath.Join(j.folder, j.mark)
	if err := os.WriteFile(path+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	for end := time.Now().Add(j.work); time.Until(end) > 0; { // the file's time is when this one was last alive
		time.Sleep(min(time.Until(end), 10*time.Millisecond))
		if err := os.Chtimes(path, time.Time{}, time.Now()); err != nil {
			return err
		}
	}
	return j.note("end")
}

// note adds a line to the journal of the name.
func (j *job) note(what string) error {
	f, err := os.OpenFile(filepath.Join(j.folder, "journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s %s\n", what, os.Getenv("LEADER_FENCE"), j.mark)
	return errors.Join(err, f.Close())
}
