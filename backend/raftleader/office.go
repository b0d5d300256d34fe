package raftleader

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

const (
	// tickEvery is for how long the log may be without an entry while leases are running: what a change of leader adds
	// to them at most, beside the election.
	tickEvery = time.Second
	// lookEvery is how often the leader looks whether a tick is due.
	lookEvery = 250 * time.Millisecond
	// queue is how many commands are on their way through the log at one time.
	queue = 128
	// retryOffice is how soon a raft leader tries again that could not take office.
	retryOffice = 50 * time.Millisecond
)

// office is the time for which this node is the raft leader of one term, from the moment on from which it may answer.
//
// Its clock goes on from the greatest time in the log, and with this machine's monotonic clock. It is right that the
// former is read first: an instant between the two then counts for nothing, and the time of the log never runs ahead.
// Let a leader's lag be how far its clock is behind real time. Whoever takes office finds a time in the log that the
// leader before it stamped some time ago, and goes on from there, so its lag is not less. A lease that was granted under
// one lag is ended under the same or a greater one: never before its time.
type office struct {
	term  uint64
	base  int64     // the greatest time in the log when the office began
	start time.Time // read after base
	votes confirmer
}

// now is the time of the log that an entry gets which is proposed now.
func (o *office) now() int64 { return o.base + time.Since(o.start).Microseconds() }

// reign is the time of one raft leader, as far as this node hears of it.
type reign struct {
	id, at string
	over   chan struct{} // closed when there is another
}

// govern takes office when this node becomes the raft leader, and keeps the time of the log moving. It goes by the state
// of raft, of which an event only says that it may have changed: one that is dropped, because another one waits, is not
// missed.
func (b *Backend) govern(events <-chan raft.Observation) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	defer b.resign()
	var last *reign
	for {
		last = b.crown(last)
		wait := look.C
		if !b.review() {
			wait = time.After(retryOffice)
		}
		select {
		case <-events:
		case <-wait:
		case <-b.ctx.Done():
			return
		}
	}
}

// resign ends the office with the node.
func (b *Backend) resign() {
	b.office.Store(nil)
	b.reign.Store(nil)
	b.changes.ring()
	if b.fsm.check() != nil {
		b.shut()
	}
}

// crown notes who the raft leader is, and returns the last one that was known.
func (b *Backend) crown(last *reign) *reign {
	at, id := b.raft.LeaderWithID()
	switch {
	case id == "":
		b.reign.Store(nil) // who asks the last one may still get an answer
		return last
	case last != nil && last.id == string(id) && last.at == string(at):
		b.reign.Store(last)
		return last
	case last != nil:
		close(last.over)
	}
	r := &reign{string(id), string(at), make(chan struct{})}
	b.reign.Store(r)
	b.changes.ring()
	return r
}

// review brings the office in line with the state of raft. It reports false if it has to be tried again soon.
func (b *Backend) review() bool {
	term := b.raft.CurrentTerm()
	leads := b.raft.State() == raft.Leader
	o := b.office.Load()
	switch {
	case o != nil && (!leads || o.term != term):
		b.office.Store(nil)
		b.changes.ring()
		return !leads
	case o != nil:
		b.tick(o)
		return true
	case !leads:
		return true
	}
	o, err := b.take(term)
	if err != nil {
		return false
	}
	b.office.Store(o)
	b.changes.ring()
	return true
}

// take takes office. It waits until everything that was in the log before is applied, so that nothing is answered without
// it (the log may well have entries that an earlier leader never heard of again).
func (b *Backend) take(term uint64) (*office, error) {
	_, err := aside(b.ctx, &b.asides, func() (struct{}, error) { return struct{}{}, b.raft.Barrier(0).Error() })
	if err != nil {
		return nil, err
	}
	if err := b.Check(); err != nil {
		return nil, err // what the barrier waited for may be what this node cannot follow
	}
	if b.raft.CurrentTerm() != term {
		return nil, errOutOfTerm // the barrier may be one of a later term
	}
	base := b.machine.Now()
	o := &office{term: term, base: base, start: time.Now()}
	if b.machine.Epoch() != 0 {
		return o, nil
	}
	_, err = b.propose(b.ctx, o, machine.Command{Kind: machine.Found, Token: rand.Text(), Wall: time.Now().UnixMicro()})
	return o, err
}

// tick moves the time of the log if nothing else does. It does not wait.
func (b *Backend) tick(o *office) {
	behind := time.Duration(o.now()-b.machine.Now()) * time.Microsecond
	if behind < tickEvery-lookEvery || !b.machine.Timed() {
		return
	}
	b.asides.run(func() {
		ctx, cancel := context.WithTimeout(b.ctx, lookEvery)
		defer cancel()
		_, _ = b.propose(ctx, o, machine.Command{Kind: machine.Tick}) // the next look tries again
	})
}

// propose puts a command into the log and waits for its effect. If it fails with an [elsewhereError] it has none; after
// any other error it may have one, now or later.
//
// When it returns, the command is in the library's queue, which has room for all that get a place, or never gets there.
// So what is proposed after an attempt that was given up, to abandon it, comes after it in the log.
//
// An office that lost an entry is over at once: the node may be elected anew and have the entry in the log after all, so
// whoever asks again has to be answered by an office that knows.
func (b *Backend) propose(ctx context.Context, o *office, c machine.Command) (machine.Reply, error) {
	select {
	case b.places <- struct{}{}:
	case <-ctx.Done():
		return machine.Reply{}, elsewhereError{ctx.Err()}
	}
	b.asides.add(1)
	defer b.asides.add(-1)
	if b.closed.Load() { // else Close waits for what follows
		<-b.places
		return machine.Reply{}, elsewhereError{errClosed}
	}
	c.At = o.now()
	future := b.raft.Apply(entry(o.term, &c), 0)
	result, err := aside(ctx, &b.asides, func() (any, error) {
		defer func() { <-b.places }()
		if err := future.Error(); err != nil {
			return nil, err
		}
		return future.Response(), nil
	})
	if errors.Is(err, raft.ErrLeadershipLost) {
		b.office.CompareAndSwap(o, nil)
	}
	if err != nil {
		return machine.Reply{}, unapplied(err)
	}
	switch r := result.(type) {
	case machine.Reply:
		return r, nil
	case error:
		return machine.Reply{}, unapplied(r)
	}
	return machine.Reply{}, errShort
}

// unapplied marks an error after which an entry has no effect.
func unapplied(err error) error {
	for _, is := range []error{
		errOutOfTerm, raft.ErrNotLeader, raft.ErrLeadershipTransferInProgress, raft.ErrEnqueueTimeout,
	} {
		if errors.Is(err, is) {
			return elsewhereError{err}
		}
	}
	return err
}
