package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

const (
	// sleepless in the environment makes this program a process that keeps a processor awake.
	sleepless = "LEADER_BENCH_SLEEPLESS"
	// sleeplessFor is the longest that it does, whatever becomes of who started it.
	sleeplessFor = 30 * time.Minute
)

// keepAwake runs a process of the lowest priority on each processor. A virtual processor that sleeps between two requests
// takes longer to wake than a request takes, so that whoever does more work would look faster. stop, which is never nil,
// ends the processes; they also end with this one.
func keepAwake(ctx context.Context) (stop func(), err error) {
	var running []func()
	stop = func() {
		for _, end := range running {
			end()
		}
	}
	program, err := os.Executable()
	if err != nil {
		return stop, err
	}
	for range runtime.NumCPU() {
		c := exec.CommandContext(ctx, program)
		c.Env = append(os.Environ(), sleepless+"=1")
		lifeline, err := c.StdinPipe()
		if err != nil {
			return stop, err
		}
		if err := c.Start(); err != nil {
			return stop, errors.Join(err, lifeline.Close())
		}
		running = append(running, func() {
			_ = lifeline.Close()
			_ = c.Wait()
		})
	}
	return stop, nil
}

// spin keeps a processor busy that nobody else wants, until its input ends.
func spin() {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	if !yieldAlways() {
		return // it would take time from what is measured
	}
	end := time.Now().Add(sleeplessFor)
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	for time.Now().Before(end) {
		select {
		case <-done:
			return
		default:
		}
	}
}
