package raftleader

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// memorySnapshots keeps the newest snapshot in memory, once it is complete. The zero value is ready.
type memorySnapshots struct {
	mu     sync.Mutex
	newest *memorySnapshot // nil if there is none
}

// memorySnapshot is one that is being written; it does not change once it is the newest.
type memorySnapshot struct {
	store *memorySnapshots
	meta  raft.SnapshotMeta
	data  bytes.Buffer
}

var (
	_ raft.SnapshotStore = (*memorySnapshots)(nil)
	_ raft.SnapshotSink  = (*memorySnapshot)(nil)
)

// Create implements [raft.SnapshotStore].
func (m *memorySnapshots) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	return &memorySnapshot{store: m, meta: raft.SnapshotMeta{
		Version:            version,
		ID:                 fmt.Sprintf("%d-%d", term, index),
		Index:              index,
		Term:               term,
		Configuration:      c,
		ConfigurationIndex: at,
	}}, nil
}

// List implements [raft.SnapshotStore].
func (m *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newest == nil {
		return nil, nil
	}
	meta := m.newest.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

// Open implements [raft.SnapshotStore].
func (m *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newest == nil || m.newest.meta.ID != id {
		return nil, nil, fmt.Errorf("snapshot %s is gone", id)
	}
	meta := m.newest.meta
	return &meta, io.NopCloser(bytes.NewReader(m.newest.data.Bytes())), nil
}

// Write implements [raft.SnapshotSink].
func (s *memorySnapshot) Write(p []byte) (int, error) { return s.data.Write(p) }

// ID implements [raft.SnapshotSink].
func (s *memorySnapshot) ID() string { return s.meta.ID }

// Cancel implements [raft.SnapshotSink].
func (s *memorySnapshot) Cancel() error { return nil }

// Close makes the snapshot the newest.
func (s *memorySnapshot) Close() error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.meta.Size = int64(s.data.Len())
	s.store.newest = s
	return nil
}
