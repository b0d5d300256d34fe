package testserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ownTemplate is a template whose archive is this test's.
func ownTemplate(t *testing.T) template {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return template{name: "some", program: os.Args[0], recipe: []string{"a"}}
}

func TestTemplate_IsMadeOnceForEachRecipe(t *testing.T) {
	m := ownTemplate(t)
	made := 0
	setup := func(dir string) error {
		made++
		return errors.Join(
			os.MkdirAll(filepath.Join(dir, "empty", "folder"), 0o700),
			os.WriteFile(filepath.Join(dir, "empty", "file"), []byte("content"), 0o600),
		)
	}
	for i, recipe := range []string{"a", "a", "b", "a"} {
		m.recipe = []string{recipe}
		dir := t.TempDir()
		if err := m.unpack(t, dir, nil, setup); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "empty", "file")); err != nil || string(got) != "content" {
			t.Errorf("the file: %q, %v", got, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "empty", "folder")); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("the folder: %v, %v", info, err)
		}
		if want := []int{1, 1, 2, 2}[i]; made != want {
			t.Errorf("after %d it was made %d times, want %d", i+1, made, want)
		}
	}
}

func TestTemplate_IsNotKeptWhenItCouldNotBeMade(t *testing.T) {
	m := ownTemplate(t)
	err := m.unpack(t, t.TempDir(), nil, func(string) error { return errors.New("no luck") })
	if err == nil || !strings.Contains(err.Error(), "some: no luck") {
		t.Errorf("unpack returned %v", err)
	}
	// It cannot be archived.
	err = m.unpack(t, t.TempDir(), nil, os.RemoveAll)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("unpack returned %v", err)
	}
	archive, err := m.archive()
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(archive), "*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := m.unpack(t, t.TempDir(), nil, func(string) error { return nil }); err != nil {
		t.Error(err)
	}
}
