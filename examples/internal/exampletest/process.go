package exampletest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Process is a running program. Its methods are called by the goroutine of the test.
type Process struct {
	cmd  *exec.Cmd
	out  output
	done chan struct{} // closed when it has ended
}

// output is what a program has printed so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// Start starts a program. It is killed when the test ends, and its output is logged.
func Start(t testing.TB, path string, args ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.CommandContext(t.Context(), path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // what it says is in ProcessState too
	}()
	t.Cleanup(func() {
		<-p.done // killed by the end of the test's context
		t.Logf("output of %v:\n%s", args, p.Output())
	})
	return p
}

// Output is what the program has printed so far, on both outputs.
func (p *Process) Output() string {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.text.String()
}

// Await waits until the output has a match of the regular expression, and returns it with its groups.
func (p *Process) Await(t testing.TB, pattern string) []string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		ended := p.Ended()
		if m := wanted.FindStringSubmatch(p.Output()); m != nil {
			return m
		}
		if ended {
			break
		}
	}
	t.Fatalf("%v: no output like %q (%v):\n%s", p.cmd.Args[1:], pattern, p.cmd.ProcessState, p.Output())
	return nil
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill kills the program with -9 and waits until it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill %v: %v", p.cmd.Args[1:], err)
	}
	p.Wait(t)
}

// Interrupt asks the program to end, as Ctrl-C does. Windows cannot.
func (p *Process) Interrupt(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("interrupt %v: %v", p.cmd.Args[1:], err)
	}
}

// Wait waits until the program has ended by itself, and returns its exit code, -1 after a signal.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(watchdog):
		t.Fatalf("%v does not end:\n%s", p.cmd.Args[1:], p.Output())
		return 0
	}
}
