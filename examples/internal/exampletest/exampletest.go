// Package exampletest builds and runs an example the way its reader does.
package exampletest

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// watchdog is the longest that a program may run.
const watchdog = time.Minute

// Build compiles the program in the working folder of the test and returns its path. It is gone when the test ends.
func Build(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "example.exe") // Windows needs the ending, the others do not mind
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// Run runs a program until it ends and returns what it printed. The test fails if it does not exit with 0 in a minute.
func Run(t testing.TB, path string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}
