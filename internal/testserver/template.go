package testserver

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// template is a data folder that takes a server long to make, kept as an archive for the next tests on this machine.
type template struct {
	name    string   // the server's
	program string   // the server's: another version makes another archive
	recipe  []string // what else the content depends on
}

// making makes tests of one process that need the same archive wait for the first.
var making sync.Mutex

// unpack fills dir, which exists and is empty, with the folder that setup fills. It calls setup, with another empty
// folder of the owner's, if there is no archive yet.
func (m template) unpack(t TB, dir string, o *owner, setup func(dir string) error) error {
	t.Helper()
	archive, err := m.archive()
	if err != nil {
		return err
	}
	if err := makeArchive(t, archive, o, setup); err != nil {
		return fmt.Errorf("prepare the data folder of %s: %w", m.name, err)
	}
	return unpack(archive, dir, o)
}

func makeArchive(t TB, archive string, o *owner, setup func(dir string) error) error {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	if _, err := os.Stat(archive); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dir := o.tempDir(t)
	if err := setup(dir); err != nil {
		return err
	}
	return pack(dir, archive)
}

func (m template) archive() (string, error) {
	program, err := os.Stat(m.program)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %d %s %q", m.program, program.Size(), program.ModTime(), m.recipe))
	return built("templates", fmt.Sprintf("%s-%x.tar", m.name, key[:8])), nil
}

// pack archives a folder whole or not at all.
func pack(dir, archive string) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(archive), filepath.Base(archive)+".*")
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), archive)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func unpack(archive, dir string, o *owner) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackOne(root, filepath.Clean(h.Name), h.FileInfo(), r)
		}
		if err == nil && o != nil {
			err = root.Chown(filepath.Clean(h.Name), o.uid, o.gid)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", archive, err)
		}
	}
}

func unpackOne(root *os.Root, name string, info fs.FileInfo, content io.Reader) error {
	if info.IsDir() {
		return root.Mkdir(name, info.Mode().Perm())
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
