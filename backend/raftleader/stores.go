package raftleader

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/goleader/leader/backend"
)

// The keys of what a node keeps beside its log, in the same file, so that all of it is lost at once or not at all.
const (
	keyFormat  = "leader/format"
	keyID      = "leader/id"
	keyCluster = "leader/cluster"
)

// dirFormat is the major version of what is in a folder.
const dirFormat = "1"

const (
	logFile = "raft.db"
	// lockTimeout is how long the file of a process that is just ending is waited for.
	lockTimeout = time.Second
	// snapshots is how many are kept on disk.
	snapshots = 2
)

// stores is what a node remembers.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	id        string
	close     func() error
}

// openStores opens those in the folder, or new ones in memory if there is none.
func openStores(c Config, logger hclog.Logger) (*stores, error) {
	if c.Dir == "" {
		memory := raft.NewInmemStore()
		s := &stores{log: memory, stable: memory, snapshots: new(memorySnapshots), close: func() error { return nil }}
		return s, s.identify()
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	file, err := openLog(c.Dir, c.hooks.unsynced)
	if err != nil {
		return nil, err
	}
	s := &stores{log: file, stable: file, close: file.Close}
	s.snapshots, err = raft.NewFileSnapshotStoreWithLogger(c.Dir, snapshots, logger)
	if err == nil {
		err = s.identify()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// openLog opens the log in a folder.
func openLog(dir string, unsynced bool) (*raftboltdb.BoltStore, error) {
	file, err := raftboltdb.New(raftboltdb.Options{
		Path:        filepath.Join(dir, logFile),
		BoltOptions: &bbolt.Options{Timeout: lockTimeout},
		NoSync:      unsynced,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = fmt.Errorf("another node uses the folder %s: %w", dir, err)
		return nil, backend.WithKind(err, backend.Misconfigured)
	}
	return file, err
}

// identify reads the id of the server, or gives it a new one.
func (s *stores) identify() error {
	format, err := s.get(keyFormat)
	switch {
	case err != nil:
		return err
	case format != "" && format != dirFormat:
		err := fmt.Errorf("the folder was written by a release with another format: %s", format)
		return backend.WithKind(err, backend.Misconfigured)
	}
	if s.id, err = s.get(keyID); err != nil || s.id != "" {
		return err
	}
	s.id = rand.Text()
	return errors.Join(s.set(keyFormat, dirFormat), s.set(keyID, s.id))
}

// get returns "" if nothing is stored.
func (s *stores) get(key string) (string, error) {
	v, err := s.stable.Get([]byte(key))
	if err != nil && err.Error() != raftboltdb.ErrKeyNotFound.Error() { // raft's memory has an error of its own
		return "", err
	}
	return string(v), nil
}

func (s *stores) set(key, value string) error { return s.stable.Set([]byte(key), []byte(value)) }
