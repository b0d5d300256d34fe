package testserver

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"slices"
)

// lookPath finds a program on the path, or else by a pattern of where it may be, and then that of the newest version.
func lookPath(name, pattern string) (string, error) {
	program, missing := exec.LookPath(name)
	if missing == nil {
		return program, nil
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", missing
	}
	// 15 is newer than 9, and longer.
	return slices.MaxFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}), nil
}
