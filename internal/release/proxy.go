package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy writes the modules as they are in the working tree, at one version, into a folder that the go command takes for
// a module proxy (https://go.dev/ref/mod#goproxy-protocol).
func proxy(root, out, version string, modules []goModule) error {
	for _, m := range modules {
		if err := m.publish(root, out, version); err != nil {
			return err
		}
	}
	return nil
}

func (m goModule) publish(root, out, version string) (err error) {
	mod, err := m.released(version)
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.path())
	if err != nil {
		return err
	}
	dir := filepath.Join(out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o750); err != nil { //nolint:gosec // the caller's folder
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	texts := map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod}
	for name, text := range texts {
		//nolint:gosec // the caller's folder
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip")) //nolint:gosec // the caller's folder
	if err != nil {
		return err
	}
	defer func() {
		if closing := archive.Close(); err == nil {
			err = closing
		}
	}()
	return m.zip(archive, filepath.Join(root, filepath.FromSlash(m.dir)), version, mod)
}

// zip writes the files of a module, with another go.mod.
func (m goModule) zip(w io.Writer, folder, version string, mod []byte) error {
	checked, err := zip.CheckDir(folder)
	if err != nil {
		return err
	}
	var files []zip.File
	for _, name := range checked.Valid {
		path, err := filepath.Rel(folder, filepath.FromSlash(name))
		if err != nil {
			return err
		}
		f := file{path: filepath.ToSlash(path), folder: folder}
		if f.path == "go.mod" {
			f.text = mod
		}
		files = append(files, f)
	}
	return zip.Create(w, module.Version{Path: m.path(), Version: version}, files)
}

// file is one of a module.
type file struct {
	path, folder string
	text         []byte // instead of what is in the folder; nil for that
}

func (f file) Path() string { return f.path }

func (f file) Lstat() (os.FileInfo, error) {
	info, err := os.Lstat(filepath.Join(f.folder, filepath.FromSlash(f.path)))
	if err != nil || f.text == nil {
		return info, err
	}
	return sized{info, int64(len(f.text))}, nil
}

func (f file) Open() (io.ReadCloser, error) {
	if f.text != nil {
		return io.NopCloser(bytes.NewReader(f.text)), nil
	}
	return os.Open(filepath.Join(f.folder, filepath.FromSlash(f.path)))
}

// sized is a file's information with another size.
type sized struct {
	fs.FileInfo

	size int64
}

func (s sized) Size() int64 { return s.size }
