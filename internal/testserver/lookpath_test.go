package testserver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestLookPath_PrefersThePathAndThenTheNewestVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	add := func(parts ...string) string {
		name := filepath.Join(append([]string{dir}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		return name
	}
	look := func() (string, error) { return lookPath("server", filepath.Join(dir, "lib", "*", "server")) }

	if got, err := look(); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("found %q, %v", got, err)
	}
	add("lib", "9", "server")
	newest := add("lib", "15", "server")
	add("lib", "14", "server")
	if got, err := look(); err != nil || got != newest {
		t.Errorf("found %q, %v", got, err)
	}
	onPath := add("bin", "server")
	if got, err := look(); err != nil || got != onPath {
		t.Errorf("found %q, %v", got, err)
	}
}
