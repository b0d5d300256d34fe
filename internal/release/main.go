// Command release makes versions of the modules of this repository.
//
//	release proxy VERSION FOLDER   writes a module proxy of the working tree, for a rehearsal
//	release prepare VERSION        makes each go.mod require its siblings at the version, without replacements
//	release tags VERSION           prints the tags to set, in their order
//	release modules                prints the paths of the modules, in that order
//	release folders                prints their folders
//
// It is run in the root of the repository.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/semver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: release proxy VERSION FOLDER | prepare VERSION | tags VERSION | modules | folders")

func run(args []string) error {
	modules, err := published(".")
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return show(modules, args[0])
	}
	if len(args) < 2 {
		return errUsage
	}
	version := args[1]
	if version == "" || semver.Canonical(version) != version {
		return fmt.Errorf("version %q: want one like v1.2.3", version)
	}
	switch {
	case args[0] == "proxy" && len(args) == 3:
		return proxy(".", args[2], version, modules)
	case args[0] == "prepare" && len(args) == 2:
		return prepare(".", version, modules)
	case args[0] == "tags" && len(args) == 2:
		for _, m := range modules {
			fmt.Println(m.tag(version))
		}
		return nil
	}
	return errUsage
}

// show prints a line for each module.
func show(modules []goModule, what string) error {
	for _, m := range modules {
		switch what {
		case "modules":
			fmt.Println(m.path())
		case "folders":
			fmt.Println(m.dir)
		default:
			return errUsage
		}
	}
	return nil
}

// prepare rewrites each go.mod for a version. Nothing is written unless all can be.
func prepare(root, version string, modules []goModule) error {
	texts := make([][]byte, len(modules))
	for i, m := range modules {
		var err error
		if texts[i], err = m.released(version); err != nil {
			return err
		}
	}
	for i, m := range modules {
		name := filepath.Join(root, filepath.FromSlash(m.dir), "go.mod")
		if err := os.WriteFile(name, texts[i], 0o600); err != nil { // the mode of an existing file stays
			return err
		}
	}
	return nil
}
