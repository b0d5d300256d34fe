package raftleader

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// WithDial has the node connect by dial.
func (c *Config) WithDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.hooks.dial = dial
}

// WithListener has the node listen there instead of on Addr.
func (c *Config) WithListener(l net.Listener) { c.hooks.listener = l }

// WithSnapshots has the node cut its log so often.
func (c *Config) WithSnapshots(every time.Duration, threshold, trailing uint64) {
	c.hooks.snapshot = snapshotPolicy{every, threshold, trailing}
}

// WithoutSync has the node not wait for its disk.
func (c *Config) WithoutSync() { c.hooks.unsynced = true }

// Kill ends the node without warning, as far as that is possible within the process.
func (b *Backend) Kill() error { return b.close(false) }

// ID is the id of the server.
func (b *Backend) ID() string { return b.stores.id }

// Leads reports whether the node is the raft leader and has taken office.
func (b *Backend) Leads() bool { return b.office.Load() != nil }

// Knows reports whether the node knows a raft leader.
func (b *Backend) Knows() bool { return b.reign.Load() != nil }

// Hurry has the node stand for election if there is no raft leader.
func (b *Backend) Hurry() { b.hurry() }

// Restore has the node restore a snapshot.
func (b *Backend) Restore(r io.ReadCloser) error { return b.fsm.Restore(r) }

// Raft is the library's.
func (b *Backend) Raft() *raft.Raft { return b.raft }

// Machine is the replicated state.
func (b *Backend) Machine() *machine.Machine { return b.machine }

// Stores are the library's log and snapshots.
func (b *Backend) Stores() (raft.LogStore, raft.SnapshotStore) {
	return b.stores.log, b.stores.snapshots
}

// Set stores a value beside the log.
func (b *Backend) Set(key, value string) error { return b.stores.set(key, value) }

// Bound returns the lease as one of another node.
func (b *Backend) Bound(l backend.Lease) backend.Lease {
	bound := *l.(*lease)
	bound.backend = b
	return &bound
}

// Office is a term of this node as the raft leader.
type Office struct {
	b *Backend
	o *office
}

// Office returns the current one.
func (b *Backend) Office() Office { return Office{b, b.office.Load()} }

// Propose puts a command into the log with the time of the office.
func (o Office) Propose(ctx context.Context, c machine.Command) (machine.Reply, error) {
	return o.b.propose(ctx, o.o, c)
}

// Now is the time of the log by the clock of the office.
func (o Office) Now() int64 { return o.o.now() }

// Confirm makes sure that nobody else was the raft leader.
func (o Office) Confirm(ctx context.Context) error { return o.b.confirm(ctx, o.o) }

// Admit has the node, as the raft leader, take one step towards making another one a member.
func (b *Backend) Admit(ctx context.Context, id, address string) error {
	_, err := b.admit(ctx, wire.Applicant{ID: id, Address: address})
	return err
}

// HasNoEffect reports whether an error says that what was asked has no effect.
func HasNoEffect(err error) bool { return isElsewhere(err) }
