package raftleader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

const (
	// enlistEvery is how soon a node that is no member yet, or knows no raft leader, asks around again.
	enlistEvery = 100 * time.Millisecond
	// foundingWithin is among how many first entries of a log the one is that founds the cluster: those before it are
	// about members, and of raft leaders that did not get further.
	foundingWithin = 64
	// greetTimeout is for how long it waits for answers at least.
	greetTimeout = 500 * time.Millisecond
)

// enlist makes the node a member and sees to it that it remains one.
func (b *Backend) enlist() {
	for !b.left.Load() {
		news := b.changes.listen()
		wait := b.config.ElectionTimeout
		if !b.settled() {
			b.seek()
			wait = enlistEvery
		}
		select {
		case <-news:
		case <-time.After(wait):
		case <-b.ctx.Done():
			return
		}
	}
}

// settled reports whether nothing has to be done: the node has a vote, at its address, and knows the raft leader.
func (b *Backend) settled() bool {
	if b.reign.Load() == nil {
		return false
	}
	return slices.Contains(b.servers(), b.self())
}

// self is the node as a full member.
func (b *Backend) self() raft.Server {
	return raft.Server{ID: raft.ServerID(b.stores.id), Address: raft.ServerAddress(b.config.Advertise)}
}

// member reports whether the node has a part of a log, so that it must not begin another one.
func (b *Backend) member() bool { return b.raft.LastIndex() > 0 }

// seek asks all peers for a cluster, and joins it, or founds one if that is for this node to do.
func (b *Backend) seek() {
	hellos := b.greet(b.ctx)
	if l := leaderOf(hellos); l.Leader != "" {
		if l.Leader != b.stores.id {
			b.apply(l)
		}
		return
	}
	if b.member() || anyMember(hellos) {
		b.complain("%s", b.noQuorum(hellos))
		return
	}
	if why := b.obstacle(hellos); why != "" {
		b.complain("%s", why)
		return
	}
	if b.config.Peers[0] == b.config.Advertise {
		b.found(hellos)
	}
}

// greet asks all peers who they are, this node included, and returns those that answer, by address.
func (b *Backend) greet(ctx context.Context) map[string]wire.Hello {
	if len(b.config.Peers) == 1 {
		return map[string]wire.Hello{b.config.Advertise: handler{b}.Hello()}
	}
	ctx, cancel := context.WithTimeout(ctx, max(b.config.ElectionTimeout, greetTimeout))
	defer cancel()
	var (
		mu     sync.Mutex
		asking sync.WaitGroup
		hellos = map[string]wire.Hello{}
	)
	for _, address := range b.config.Peers {
		asking.Go(func() {
			h, err := b.port.AskHello(ctx, address)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			hellos[address] = h
		})
	}
	asking.Wait()
	return hellos
}

// leaderOf returns what is known of the raft leader, from itself if possible: others may be late.
func leaderOf(hellos map[string]wire.Hello) wire.Hello {
	var found wire.Hello
	for _, h := range hellos {
		if h.Leader != "" && (found.Leader == "" || h.Leader == h.ID) {
			found = h
		}
	}
	return found
}

// obstacle says why no cluster can be founded, "" if it can. All nodes have to be there, and none may have a log, or there
// might be another cluster, of which the absent ones would be.
func (b *Backend) obstacle(hellos map[string]wire.Hello) string {
	if missing := b.missing(hellos); len(missing) > 0 {
		return "no cluster yet: waiting for " + strings.Join(missing, ", ")
	}
	for _, address := range b.config.Peers {
		h := hellos[address]
		switch {
		case address == b.config.Advertise && h.ID != b.stores.id:
			return fmt.Sprintf("another node answers at %s, the address of this one", address)
		case h.Left:
			return address + " is leaving"
		case !slices.Equal(h.Peers, b.config.Peers):
			return fmt.Sprintf("%s has other peers than this node: %q, not %q", address, h.Peers, b.config.Peers)
		}
	}
	return ""
}

// noQuorum describes a cluster without a raft leader.
func (b *Backend) noQuorum(hellos map[string]wire.Hello) string {
	var fresh []string
	for address, h := range hellos {
		if !h.Member {
			fresh = append(fresh, address)
		}
	}
	text := fmt.Sprintf("no quorum: %d of %d nodes answer", len(hellos), len(b.config.Peers))
	if missing := b.missing(hellos); len(missing) > 0 {
		text += "; there is no answer from " + strings.Join(missing, ", ")
	}
	if len(fresh) > 0 {
		slices.Sort(fresh)
		text += "; new, and so without a vote, are " + strings.Join(fresh, ", ")
	}
	return text
}

// missing returns the peers that did not answer.
func (b *Backend) missing(hellos map[string]wire.Hello) []string {
	return slices.DeleteFunc(slices.Clone(b.config.Peers), func(address string) bool {
		_, ok := hellos[address]
		return ok
	})
}

func anyMember(hellos map[string]wire.Hello) bool {
	for _, h := range hellos {
		if h.Member {
			return true
		}
	}
	return false
}

// found begins a cluster of all peers. Only the one with the smallest address does, and nobody takes part who was not
// asked: the vote of each is bound to the id with which it answered. So even two nodes that take themselves for this one
// begin at most one cluster with a majority.
func (b *Backend) found(hellos map[string]wire.Hello) {
	var c raft.Configuration
	for _, address := range b.config.Peers {
		c.Servers = append(c.Servers, raft.Server{
			ID: raft.ServerID(hellos[address].ID), Address: raft.ServerAddress(address),
		})
	}
	_, err := aside(b.ctx, &b.asides, func() (struct{}, error) {
		return struct{}{}, b.raft.BootstrapCluster(c).Error()
	})
	if err != nil {
		b.complain("founding a cluster: %v", err)
		return
	}
	b.hurry()
}

// hurry has a node that has not heard of a raft leader stand for election now. A follower looks at its timeout when the
// timeout becomes shorter.
func (b *Backend) hurry() {
	was := b.raft.ReloadableConfig()
	sooner := was
	sooner.HeartbeatTimeout -= time.Millisecond
	if b.raft.ReloadConfig(sooner) == nil { // else it stands when the timeout has passed
		_ = b.raft.ReloadConfig(was) // it was valid before
	}
}

// apply asks the raft leader for membership.
func (b *Backend) apply(l wire.Hello) {
	ctx, cancel := context.WithTimeout(b.ctx, 2*b.config.ElectionTimeout)
	defer cancel()
	cluster, err := b.cluster()
	if err != nil {
		b.complain("reading which cluster the log is of: %v", err)
		return
	}
	a, err := b.port.AskAdmission(ctx, l.Leader, l.At, wire.Applicant{
		ID: b.stores.id, Address: b.config.Advertise, Cluster: cluster, Applied: b.raft.AppliedIndex(),
	})
	switch {
	case err != nil:
		b.complain("joining through %s: %v", l.At, err)
	case a.Fault != wire.None:
		b.complain("joining through %s: %s", l.At, a.Text)
	case !a.Voter:
		b.complain("joining: not yet caught up with the log")
	default:
		b.trouble.Store(nil)
	}
}

// cluster returns the identity of the cluster that the node's log is of, "" if it has none. An entry that founded one
// counts also if the node does not know yet that it is committed.
func (b *Backend) cluster() (string, error) {
	id, err := b.stores.get(keyCluster)
	if err != nil || id != "" || !b.member() {
		return id, err
	}
	first, err := b.stores.log.FirstIndex()
	if err != nil {
		return "", err
	}
	for i := max(first, 1); i < first+foundingWithin; i++ {
		var l raft.Log
		switch err := b.stores.log.GetLog(i, &l); {
		case errors.Is(err, raft.ErrLogNotFound):
			return "", nil
		case err != nil:
			return "", err
		}
		if id := founded(&l); id != "" {
			return id, nil
		}
	}
	return "", nil
}

// complain notes why there is no raft leader for this node.
func (b *Backend) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.trouble.Store(&text)
}

// noLeader is the error of a call that found no raft leader.
func (b *Backend) noLeader() error {
	if text := b.trouble.Load(); text != nil {
		return fmt.Errorf("%w: %s", errNoLeader, *text)
	}
	return errNoLeader
}

// Hello implements [wire.Handler].
func (b handler) Hello() wire.Hello {
	h := wire.Hello{ID: b.stores.id, Peers: b.config.Peers, Member: b.member(), Left: b.left.Load()}
	if r := b.reign.Load(); r != nil {
		h.Leader, h.At = r.id, cmp.Or(r.at, b.config.Advertise)
	}
	return h
}

// Term implements [wire.Handler].
func (b handler) Term() uint64 { return b.raft.CurrentTerm() }
