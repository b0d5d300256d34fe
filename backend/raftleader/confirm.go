package raftleader

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// confirmer finds out whether there was a later raft leader at some instant after a question was put. Questions that are
// put while the others are being asked share the next round.
//
// The raft library's VerifyLeader is not enough for that. It counts every answer to a heartbeat that comes in later, also
// one that was on its way before: a leader that was stopped and goes on finds such answers waiting for it, and would
// take itself for the leader while another one has long been elected.
type confirmer struct {
	mu   sync.Mutex
	next *round // the one that begins later; nil if nobody has asked for it
	busy bool
}

type round struct {
	done chan struct{}
	err  error
}

// confirm returns nil if nobody else was the raft leader at some instant since it was called.
func (b *Backend) confirm(ctx context.Context, o *office) error {
	c := &o.votes
	c.mu.Lock()
	r := c.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		c.next = r
	}
	if !c.busy {
		c.busy = true
		b.asides.run(func() { b.rounds(o) }) //nolint:contextcheck // it is for everybody who asks
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rounds makes rounds as long as somebody asks.
func (b *Backend) rounds(o *office) {
	c := &o.votes
	for {
		c.mu.Lock()
		r := c.next
		c.next = nil
		if r == nil {
			c.busy = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		r.err = b.poll(o.term)
		close(r.done)
	}
}

// poll asks the voters for their terms. A later leader was elected by a majority that had its term by then, one that has a
// voter in common with every majority here: configurations differ by one server at a time. So there is none if a
// majority, this node included, still knows of no later term.
func (b *Backend) poll(term uint64) error {
	ctx, cancel := context.WithTimeout(b.ctx, b.config.ElectionTimeout)
	defer cancel()
	type vote struct {
		term uint64
		err  error
	}
	voters := b.electorate()
	answers := make(chan vote, len(voters))
	for _, s := range voters {
		if string(s.ID) == b.stores.id {
			answers <- vote{term: b.raft.CurrentTerm()}
			continue
		}
		b.asides.run(func() {
			t, err := b.port.AskTerm(ctx, string(s.ID), string(s.Address))
			answers <- vote{t, err}
		})
	}
	missing := len(voters)/2 + 1
	for range voters {
		v := <-answers
		switch {
		case v.err != nil:
			continue
		case v.term > term:
			return elsewhereError{errOutOfTerm}
		}
		if missing--; missing == 0 {
			return nil
		}
	}
	return elsewhereError{errNoQuorum}
}

// servers returns the members, also those that are being added or not yet removed. The list is shared: not to be modified.
func (b *Backend) servers() []raft.Server {
	future := b.raft.GetConfiguration() // it has its answer already
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// electorate returns the members that have a vote.
func (b *Backend) electorate() []raft.Server {
	return slices.DeleteFunc(slices.Clone(b.servers()), func(s raft.Server) bool { return s.Suffrage != raft.Voter })
}

// voters returns how many they are.
func (b *Backend) voters() int { return len(b.electorate()) }

// alone reports whether the node is all there is of its cluster, or of one that it would have founded. Another one that
// knows of no member has not read its log yet.
func (b *Backend) alone() bool {
	servers := b.servers()
	if len(servers) == 0 {
		return len(b.config.Peers) == 1
	}
	return len(servers) == 1 && string(servers[0].ID) == b.stores.id // its address may have been another one
}
