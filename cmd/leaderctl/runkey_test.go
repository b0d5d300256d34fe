//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun_ARunKeyIsNotUsedUpByACommandThatCannotRun(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := onSQLite(t)
	must(t, 126, settings, "run", "job", "--run-key", "k", "--", script)
	must(t, 0, settings, "run", "job", "--run-key", "k", "--", "true")
	must(t, 114, settings, "run", "job", "--run-key", "k", "--", "true")
}

func TestRun_ARunKeyIsUsedUpByACommandThatFails(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	must(t, 3, settings, "run", "job", "--run-key", "k", "--", "sh", "-c", "exit 3")
	must(t, 114, settings, "run", "job", "--run-key", "k", "--", "true")
	text := must(t, 0, settings, "history", "job")
	if !strings.Contains(text, "Failed") || !strings.Contains(text, "exit code 3") || strings.Contains(text, "Succeeded") {
		t.Errorf("the history has\n%s", text)
	}
}

func TestRun_ARunKeyIsFreedByACommandThatFailsWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	must(t, 3, settings, "run", "job", "--run-key", "k", "--retry-failed", "--", "sh", "-c", "exit 3")
	must(t, 0, settings, "run", "job", "--run-key", "k", "--", "true")
	must(t, 113, settings, "run", "job", "--retry-failed", "--", "true")
}
