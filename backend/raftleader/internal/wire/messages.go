package wire

import (
	"context"
	"time"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

// Handler is the node behind a port.
type Handler interface {
	// Hello says who listens here.
	Hello() Hello
	// Serve answers a request if this is the raft leader.
	Serve(ctx context.Context, r Request) Answer
	// Admit makes a server a member if this is the raft leader.
	Admit(ctx context.Context, a Applicant) Admission
	// Dismiss removes a server if this is the raft leader.
	Dismiss(ctx context.Context, address string) Admission
	// Term is the newest term of raft that this node knows.
	Term() uint64
}

// Hello is what a node says of itself.
type Hello struct {
	ID     string
	Peers  []string // sorted
	Member bool     // it has a log
	Left   bool     // it is to be no member any more
	Leader string   // the id of the raft leader, "" if it knows none
	At     string   // the leader's address
}

// Topic is what a request is about.
type Topic byte

const (
	// Propose is a command for the log, unless the answer is known to change nothing.
	Propose Topic = iota + 1
	// Inspect asks for the holder of Command.Key.
	Inspect
	// List asks for the keys that begin with Command.Key.
	List
	// Records asks for the records of the set Command.Key.
	Records
	// Await asks to be answered when the holder of Command.Key is no longer the one of Index, whose zero is nobody.
	Await
)

// Request is a question to the raft leader.
type Request struct {
	Topic   Topic
	Command machine.Command
	All     bool          // of List: kept and expired keys too
	Index   uint64        // of Await
	Within  time.Duration // how long the answer is worth anything
}

// Fault is what went wrong with a request.
type Fault byte

const (
	// None says that nothing went wrong.
	None Fault = iota
	// Elsewhere says that this node is not the raft leader, or not in time: the request has no effect, now or later.
	Elsewhere
	// Unsettled says that the request may have an effect.
	Unsettled
	// Refused says that it is of no use to try again.
	Refused
)

// Answer is the raft leader's.
type Answer struct {
	Fault   Fault
	Text    string // of the fault
	Reply   machine.Reply
	Holder  machine.Holder
	Entries []machine.Entry
	Records []machine.Record
	Now     int64 // the cluster's time as µs of an epoch like that of the wall clock
}

// Applicant wants to be a member.
type Applicant struct {
	ID      string
	Address string
	Cluster string // whose log it has, "" if none
	Applied uint64 // up to which entry it has the log
}

// Admission is what came of it.
type Admission struct {
	Fault Fault
	Text  string
	Voter bool
}
