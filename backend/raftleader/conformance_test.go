package raftleader_test

import (
	"sync"
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/raftleader"
)

// store is the newest cluster that the suite opened.
type store struct {
	durable bool
	synced  bool // waits for its disk, if it is durable

	mu      sync.Mutex
	nodes   *nodes
	drivers []*reborn
}

func TestBackend_Conformance(t *testing.T) {
	s := &store{durable: true}
	backendtest.Run(t, backendtest.Config{
		Open: s.open, Fidelity: backendtest.Real, Partition: s.partition, PartitionsLeader: true, Restart: s.restart,
	})
}

func TestBackend_Conformance_InMemory(t *testing.T) {
	t.Setenv("LEADER_MATRIX", "") // the matrix has the durable one
	s := &store{}
	backendtest.Run(t, backendtest.Config{
		Open: s.open, Fidelity: backendtest.Real, Partition: s.partition, PartitionsLeader: true,
	})
}

func BenchmarkConformance(b *testing.B) {
	s := &store{durable: true, synced: true}
	backendtest.Bench(b, backendtest.Config{Open: s.open, Fidelity: backendtest.Real})
}

// open starts three nodes, of which the drivers are, in turn.
func (s *store) open(t testing.TB, n int) []backend.Driver {
	t.Helper()
	changes := []change{unhurried}
	if s.durable {
		changes = append(changes, durable(t))
	}
	if !s.synced {
		changes = append(changes, unsynced)
	}
	c := newNodes(t, 3, changes...)
	c.faulty()
	for i := range c.list {
		c.start(i)
	}
	c.leader()
	drivers := make([]backend.Driver, n)
	var all []*reborn
	for i := range drivers {
		r := &reborn{node: i % len(c.list)}
		r.set(c.list[r.node])
		drivers[i] = r
		all = append(all, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes, s.drivers = c, all
	return drivers
}

// unhurried keeps a cluster from elections on a machine that has much else to do.
func unhurried(_ int, c *raftleader.Config) { c.ElectionTimeout = 6 * election }

// unsynced keeps the suite from waiting for a disk that others are writing to: it kills nodes, and not the machine.
func unsynced(_ int, c *raftleader.Config) { c.WithoutSync() }

func (s *store) partition(_ testing.TB, i int) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.isolate(i % len(s.nodes.list))
}

// restart kills all nodes and starts them again from their folders.
func (s *store) restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.nodes.list {
		s.nodes.kill(i)
	}
	for i := range s.nodes.list {
		s.nodes.start(i)
	}
	s.nodes.list[0].Hurry()
	for _, r := range s.drivers {
		r.set(s.nodes.list[r.node])
	}
}
