//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is the built tool, and jobProgram the command that it runs in tests.
var program, jobProgram string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "leaderctl-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program, jobProgram = filepath.Join(dir, "leaderctl"), filepath.Join(dir, "job")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", dir, ".", "./testdata/job")
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the tool: %v\n%s", err, text)
		return 1
	}
	// They wait more than they compute.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// watchdog is how long anything may take that is not about time.
const watchdog = 30 * time.Second

// invocation is one use of the tool.
type invocation struct {
	*exec.Cmd
	out, errs bytes.Buffer
}

// tool prepares a call with nothing of this process's settings. Settings are given as NAME=value.
func tool(t testing.TB, settings []string, args ...string) *invocation {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*watchdog)
	t.Cleanup(cancel)
	v := &invocation{Cmd: exec.CommandContext(ctx, program, args...)}
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "LEADER_") && !strings.HasPrefix(setting, "XDG_") {
			v.Env = append(v.Env, setting)
		}
	}
	v.Env = append(v.Env, settings...)
	v.Stdout, v.Stderr = &v.out, &v.errs
	v.WaitDelay = watchdog
	return v
}

// run runs the tool and returns its exit code.
func (v *invocation) run(t testing.TB) int {
	t.Helper()
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	return v.wait(t)
}

// wait waits for the end of a started tool and returns its exit code, -1 if a signal ended it.
func (v *invocation) wait(t testing.TB) int {
	t.Helper()
	err := v.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%v: %v\n%s", v.Args, err, v.errs.String())
	}
	return v.ProcessState.ExitCode()
}

// must runs the tool, which has to end with code, and returns what it prints.
func must(t testing.TB, code int, settings []string, args ...string) string {
	t.Helper()
	v := tool(t, settings, args...)
	if got := v.run(t); got != code {
		t.Fatalf("leaderctl %q ended with %d, want %d\n%s%s", args, got, code, v.out.String(), v.errs.String())
	}
	return v.out.String()
}

// follow starts the tool, and returns what it writes to one of its outputs while it runs.
func (v *invocation) follow(t testing.TB, output *io.Writer, pipe func() (io.ReadCloser, error)) *bufio.Reader {
	t.Helper()
	*output = nil
	r, err := pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(r)
}

// onSQLite are settings for a new file.
func onSQLite(t testing.TB) []string {
	t.Helper()
	return []string{"LEADER_STORE=sqlite:" + filepath.Join(t.TempDir(), "leader.db")}
}

// onExisting are settings for a file with all tables.
func onExisting(t testing.TB) []string {
	t.Helper()
	settings := onSQLite(t)
	must(t, 0, settings, "migrate")
	return settings
}

// eventually waits until ok, or fails.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(watchdog); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, watchdog)
		}
	}
}

// signal sends a signal to the tool itself.
func (v *invocation) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := v.Process.Signal(sig); err != nil {
		t.Fatalf("%v: %v", sig, err)
	}
}
