package raftleader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

// fsm applies the log to a machine. The raft library calls it from one goroutine.
type fsm struct {
	machine *machine.Machine
	stores  *stores
	broken  atomic.Pointer[error] // why the log cannot be followed any further
	halt    func()                // called when it is broken
	cluster string                // what is stored as the identity of the cluster
}

var (
	errOutOfTerm = errors.New("the raft leader has lost its office meanwhile")
	errShort     = errors.New("an entry of the log is too short")
)

// entry encodes a command for the log, with the term in which its time was taken.
//
// A time that was taken in one term must not get into the log in another one. A leader's clock is behind that of the
// leader before by the time between them: a command by the faster clock, in a log that goes by the slower one, would end
// the leases of the latter too early. So the entry is void if it comes into the log in another term, on every node.
func entry(term uint64, c *machine.Command) []byte {
	return append(binary.AppendUvarint(nil, term), c.Encode()...)
}

// founded returns the identity of the cluster that an entry of the log founds, "" if it does not.
func founded(l *raft.Log) string {
	term, n := binary.Uvarint(l.Data)
	if l.Type != raft.LogCommand || n <= 0 || term != l.Term {
		return ""
	}
	c, err := machine.DecodeCommand(l.Data[n:])
	if err != nil || c.Kind != machine.Found {
		return ""
	}
	return c.Token
}

// Apply implements [raft.FSM]. It returns a [machine.Reply], or an error if the entry has no effect.
func (f *fsm) Apply(l *raft.Log) any {
	if broken := f.broken.Load(); broken != nil {
		return *broken // of no kind: others may follow the entry
	}
	term, n := binary.Uvarint(l.Data)
	if n <= 0 {
		return f.fail(errShort)
	}
	if term != l.Term {
		return errOutOfTerm
	}
	c, err := machine.DecodeCommand(l.Data[n:])
	if err != nil {
		return f.fail(err)
	}
	reply := f.machine.Apply(l.Index, c)
	if c.Kind == machine.Found {
		if err := f.remember(); err != nil {
			return f.fail(err)
		}
	}
	return reply
}

// fail stops the node: to go on behind an entry or a snapshot that it does not know would lead it away from the others.
func (f *fsm) fail(err error) error {
	f.broken.Store(&err)
	f.halt()
	return err
}

// check says why the log cannot be followed any further, by an error of kind [backend.Misconfigured].
func (f *fsm) check() error {
	if broken := f.broken.Load(); broken != nil {
		return backend.WithKind(fmt.Errorf("the node has stopped: %w", *broken), backend.Misconfigured)
	}
	return nil
}

// remember stores to which cluster this server belongs.
func (f *fsm) remember() error {
	if c := f.machine.Cluster(); c != f.cluster {
		f.cluster = c
		return f.stores.set(keyCluster, c)
	}
	return nil
}

// Snapshot implements [raft.FSM].
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return snapshot{f.machine.Snapshot()}, nil
}

// Restore implements [raft.FSM].
func (f *fsm) Restore(r io.ReadCloser) error {
	state, err := machine.Decode(r)
	if err != nil {
		return f.fail(err)
	}
	f.machine.Restore(state)
	if err := f.remember(); err != nil {
		return f.fail(err)
	}
	return nil
}

type snapshot struct{ state machine.State }

// Persist implements [raft.FSMSnapshot].
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.state.Encode(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Release implements [raft.FSMSnapshot].
func (snapshot) Release() {}
