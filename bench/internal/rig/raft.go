package rig

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

const (
	raftNodes = 3
	// raftElection is so long that a busy machine does not cost the raft leader its office.
	raftElection = 2 * time.Second
	// raftEntry is about as large as a command of the driver.
	raftEntry = 120
)

// Raft is a cluster of three of the library's nodes, and one of three of the raft library's own, with the same kind of
// log.
type Raft struct {
	nodes []*raftleader.Backend // the raft leader first
	raw   *raft.Raft            // the raft leader
	heard chan struct{}         // is sent to when raw has applied an entry, unless it is full
}

// NewRaft starts both in folders of their own, whose disk they wait for. All nodes are in this process.
func NewRaft(t testserver.TB) *Raft {
	t.Helper()
	return newRaft(t, func(i int) string { return filepath.Join(t.TempDir(), strconv.Itoa(i)) })
}

// NewRaftInMemory starts both with logs in memory.
func NewRaftInMemory(t testserver.TB) *Raft {
	t.Helper()
	return newRaft(t, func(int) string { return "" })
}

func newRaft(t testserver.TB, dir func(i int) string) *Raft {
	t.Helper()
	r := new(Raft)
	r.startNodes(t, dir)
	r.startRaw(t, dir)
	return r
}

// startNodes starts the nodes of the library.
func (r *Raft) startNodes(t testserver.TB, dir func(i int) string) {
	t.Helper()
	addrs := make([]string, raftNodes)
	listeners := make([]net.Listener, raftNodes)
	for i := range addrs {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("%v", err)
		}
		listeners[i], addrs[i] = l, l.Addr().String()
	}
	leads := make(chan int, raftNodes)
	for i, addr := range addrs {
		_ = listeners[i].Close() // the node listens there
		node, err := raftleader.Open(t.Context(), raftleader.Config{
			Addr: addr, Peers: addrs, Dir: dir(i), ElectionTimeout: raftElection,
			Logger: slog.New(&elected{tell: func() { leads <- i }}),
		})
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { _ = node.Close() })
		r.nodes = append(r.nodes, node)
	}
	select {
	case i := <-leads:
		r.nodes[0], r.nodes[i] = r.nodes[i], r.nodes[0]
	case <-time.After(10 * raftElection):
		t.Fatalf("no node leads")
	}
	for _, node := range r.nodes {
		awaitMember(t, node)
	}
}

// awaitMember waits until a node takes part.
func awaitMember(t testserver.TB, d backend.Driver) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*raftElection)
	defer cancel()
	for {
		_, err := d.Inspect(ctx, "nothing")
		if err == nil {
			return
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			t.Fatalf("%v", err)
		}
	}
}

// elected is a log of the raft library, which tells when the node becomes the raft leader for the first time.
type elected struct {
	once sync.Once
	tell func()
}

// Enabled implements [slog.Handler].
func (*elected) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements [slog.Handler].
func (e *elected) WithAttrs([]slog.Attr) slog.Handler { return e }

// WithGroup implements [slog.Handler].
func (e *elected) WithGroup(string) slog.Handler { return e }

// Handle implements [slog.Handler].
func (e *elected) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "entering leader state" {
		e.once.Do(e.tell)
	}
	return nil
}

// startRaw starts the nodes of the raft library.
func (r *Raft) startRaw(t testserver.TB, dir func(i int) string) {
	t.Helper()
	var servers []raft.Server
	transports := make([]*raft.NetworkTransport, raftNodes)
	for i := range transports {
		transport, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, 3, patience, hclog.NewNullLogger())
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { _ = transport.Close() })
		transports[i] = transport
		servers = append(servers, raft.Server{ID: raft.ServerID(strconv.Itoa(i)), Address: transport.LocalAddr()})
	}
	nodes := make([]*raft.Raft, raftNodes)
	states := make([]rawState, raftNodes)
	for i, s := range servers {
		states[i].heard = make(chan struct{}, 1)
		nodes[i] = startRawNode(t, s.ID, transports[i], states[i], dir(i))
	}
	if err := nodes[0].BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		t.Fatalf("%v", err)
	}
	for end := time.Now().Add(10 * raftElection); r.raw == nil; time.Sleep(settle) {
		for i, node := range nodes {
			if node.State() == raft.Leader {
				r.raw, r.heard = node, states[i].heard
			}
		}
		if time.Now().After(end) {
			t.Fatalf("no raw node leads")
		}
	}
}

func startRawNode(
	t testserver.TB, id raft.ServerID, transport raft.Transport, state rawState, dir string,
) *raft.Raft {
	t.Helper()
	memory := raft.NewInmemStore()
	log, stable := raft.LogStore(memory), raft.StableStore(memory)
	if dir != "" {
		file, err := raftboltdb.NewBoltStore(dir + ".raw")
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { _ = file.Close() })
		log, stable = file, file
	}
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = id, hclog.NewNullLogger()
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = raftElection, raftElection, raftElection/2
	node, err := raft.NewRaft(config, state, log, stable, raft.NewInmemSnapshotStore(), transport)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = node.Shutdown().Error() })
	return node
}

// rawState is a replicated state without any content. It tells that something was applied.
type rawState struct{ heard chan struct{} }

// Apply implements [raft.FSM].
func (s rawState) Apply(*raft.Log) any {
	select {
	case s.heard <- struct{}{}:
	default:
	}
	return nil
}

// Snapshot implements [raft.FSM].
func (s rawState) Snapshot() (raft.FSMSnapshot, error) { return s, nil }

// Restore implements [raft.FSM].
func (rawState) Restore(r io.ReadCloser) error { return r.Close() }

// Persist implements [raft.FSMSnapshot].
func (rawState) Persist(sink raft.SnapshotSink) error { return sink.Close() }

// Release implements [raft.FSMSnapshot].
func (rawState) Release() {}

// Run returns a RunIfLeader on the node that is the raft leader.
func (r *Raft) Run(t testserver.TB) Op { return run(newElector(t, r.nodes[0]), "run") }

// Forwarded returns a RunIfLeader on another node.
func (r *Raft) Forwarded(t testserver.TB) Op { return run(newElector(t, r.nodes[1]), "forwarded") }

// Skip returns a RunIfLeader on the node that is the raft leader, while another node holds the name.
func (r *Raft) Skip(t testserver.TB) Op {
	hold(t, newElector(t, r.nodes[1]), "skip")
	return skip(newElector(t, r.nodes[0]), "skip", leader.Contended)
}

// Handoff returns the hand-off from the node that is the raft leader to another one.
func (r *Raft) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, r.nodes[0], r.nodes[1], 0).pass
}

// Entry returns the commit of one entry by the raft library.
func (r *Raft) Entry() Op {
	return func(context.Context) error { return r.raw.Apply(make([]byte, raftEntry), patience).Error() }
}

// Verify returns the raft library's question to the others whether its leader is still the one.
func (r *Raft) Verify() Op {
	return func(context.Context) error { return r.raw.VerifyLeader().Error() }
}

// RawHandoff returns the commit of an entry by the raft library and, once its leader has applied it, of another one.
func (r *Raft) RawHandoff() contest.Way {
	entry := r.Entry()
	return func(ctx context.Context) (time.Duration, error) {
		select {
		case <-r.heard: // of an entry before
		default:
		}
		return pass(func() error {
			<-r.heard
			return entry(ctx)
		}, func() error { return entry(ctx) })
	}
}
