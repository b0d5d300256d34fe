package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// module0 is the version that the modules of this repository require each other at while they are developed, beside a
// replacement by the folder.
const module0 = "v0.0.0"

// A goModule is a module of this repository that others may import.
type goModule struct {
	dir  string // relative to the root of the repository, with slashes; "." for the root module
	file *modfile.File
}

func (m goModule) path() string { return m.file.Module.Mod.Path }

// tag is the name of the tag that publishes a version of the module.
func (m goModule) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// published returns the modules below root that others may import, each after those that it requires. Modules below
// internal cannot be imported, and nobody needs to import the examples and the benchmarks.
func published(root string) ([]goModule, error) {
	var all []goModule
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "testdata", "internal", "examples", "bench"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.Name() != "go.mod" {
			return nil
		}
		m, err := read(root, filepath.Dir(path))
		all = append(all, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	return inOrder(all)
}

func read(root, folder string) (goModule, error) {
	dir, err := filepath.Rel(root, folder)
	if err != nil {
		return goModule{}, err
	}
	name := filepath.Join(folder, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return goModule{}, err
	}
	file, err := modfile.Parse(name, text, nil)
	return goModule{dir: filepath.ToSlash(dir), file: file}, err
}

// inOrder sorts modules so that each comes after those that it requires.
func inOrder(all []goModule) ([]goModule, error) {
	slices.SortFunc(all, func(a, b goModule) int { return cmp.Compare(a.path(), b.path()) })
	var sorted []goModule
	done := map[string]bool{}
	for len(sorted) < len(all) {
		before := len(sorted)
		for _, m := range all {
			if !done[m.path()] && !slices.ContainsFunc(m.siblings(), func(path string) bool { return !done[path] }) {
				done[m.path()] = true
				sorted = append(sorted, m)
			}
		}
		if len(sorted) == before {
			return nil, fmt.Errorf("each module but %d requires another one that cannot be published before it", before)
		}
	}
	return sorted, nil
}

// siblings are the modules of this repository that m requires.
func (m goModule) siblings() []string {
	var paths []string
	for _, r := range m.file.Require {
		if r.Mod.Version == module0 {
			paths = append(paths, r.Mod.Path)
		}
	}
	return paths
}

// released returns the go.mod that m has at a version: its siblings are required at that version and not replaced.
func (m goModule) released(version string) ([]byte, error) {
	if err := module.Check(m.path(), version); err != nil {
		return nil, err
	}
	text, err := m.file.Format()
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(m.dir+"/go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	for _, path := range m.siblings() {
		if err := file.AddRequire(path, version); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Clone(file.Replace) {
		if !strings.HasPrefix(r.New.Path, ".") {
			return nil, fmt.Errorf("%s: %s is replaced by %s, which only works in this repository", m.path(), r.Old, r.New)
		}
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	file.Cleanup()
	return file.Format()
}
