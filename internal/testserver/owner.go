package testserver

import (
	"os"
	"os/user"
	"strconv"
)

// owner is a user of this machine, as whom a server runs that refuses to run as root. Nil is the user of this process.
type owner struct {
	uid, gid int
}

// ownerIfRoot is nil unless this process is root's. It is the first of the names that is a user.
func ownerIfRoot(names ...string) (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // Nil is this user.
	}
	var failed error
	for _, name := range names {
		found, err := user.Lookup(name)
		if err != nil {
			failed = err
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.Atoi(found.Gid)
		return &owner{uid, gid}, err
	}
	return nil, failed
}

// tempDir makes a folder of the owner's that ends with the test.
func (o *owner) tempDir(t TB) string {
	t.Helper()
	if o == nil {
		return t.TempDir()
	}
	// The folders above a test's own are closed to others.
	dir, err := os.MkdirTemp("", "leader-testserver-")
	if err != nil {
		t.Fatalf("make a data folder: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // What stays is in the system's folder for such things.
	if err := os.Chown(dir, o.uid, o.gid); err != nil {
		t.Fatalf("make a data folder: %v", err)
	}
	return dir
}
