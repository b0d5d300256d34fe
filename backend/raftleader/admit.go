package raftleader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// near is how many entries a node may be behind to get its vote. It has them at once.
const near = 1024

// Admit implements [wire.Handler]: it makes the applicant a member step by step, one for each call. A server that was at
// its address before is removed: it is the same node, which has lost its log, and with it the right to vote by it.
func (b handler) Admit(ctx context.Context, a wire.Applicant) wire.Admission {
	b.admitting.Lock()
	defer b.admitting.Unlock()
	voter, err := b.admit(ctx, a)
	f, text := fault(err)
	return wire.Admission{Fault: f, Text: text, Voter: voter}
}

func (b *Backend) admit(ctx context.Context, a wire.Applicant) (voter bool, err error) {
	if b.office.Load() == nil {
		return false, elsewhereError{errNoLeader}
	}
	if err := b.eligible(a); err != nil {
		return false, backend.WithKind(err, backend.Misconfigured)
	}
	servers := b.servers()
	id, address := raft.ServerID(a.ID), raft.ServerAddress(a.Address)
	was := slices.IndexFunc(servers, func(s raft.Server) bool { return s.Address == address && s.ID != id })
	is := slices.IndexFunc(servers, func(s raft.Server) bool { return s.ID == id })
	if is >= 0 && servers[is] == (raft.Server{ID: id, Address: address}) {
		return true, nil
	}
	if err := b.visit(ctx, a); err != nil {
		return false, err
	}
	switch {
	case was >= 0:
		return false, b.change(ctx, func(t time.Duration) raft.IndexFuture {
			return b.raft.RemoveServer(servers[was].ID, 0, t)
		})
	case is < 0 || servers[is].Address != address:
		return false, b.change(ctx, func(t time.Duration) raft.IndexFuture {
			return b.raft.AddNonvoter(id, address, 0, t)
		})
	case a.Applied == 0 || a.Applied+near < b.raft.CommitIndex():
		return false, nil // without anything of the log it would be of no use to the quorum
	}
	return true, b.change(ctx, func(t time.Duration) raft.IndexFuture {
		return b.raft.AddVoter(id, address, 0, t)
	})
}

// visit makes sure that the applicant is who answers at its address. One that cannot be reached would count for the
// quorum and be of no use to it, and a node that is there would be removed for one with a wrong address. One that is
// leaving may have applied before, and be dismissed already.
func (b *Backend) visit(ctx context.Context, a wire.Applicant) error {
	h, err := b.port.AskHello(ctx, a.Address)
	if err != nil {
		return fmt.Errorf("the raft leader, %s, does not reach %s: %w", b.config.Advertise, a.Address, err)
	}
	if h.ID != a.ID {
		return fmt.Errorf("another node answers at %s", a.Address)
	}
	if h.Left {
		return fmt.Errorf("%s is leaving", a.Address)
	}
	return nil
}

// eligible says why an applicant can never be a member.
func (b *Backend) eligible(a wire.Applicant) error {
	switch {
	case !slices.Contains(b.config.Peers, a.Address):
		return fmt.Errorf("the raft leader, %s, does not have %s among its peers, %q",
			b.config.Advertise, a.Address, b.config.Peers)
	case a.Address == b.config.Advertise:
		return fmt.Errorf("%s is the address of the raft leader", a.Address)
	case a.Cluster != "" && a.Cluster != b.machine.Cluster():
		return fmt.Errorf("the folder of %s is that of a node of another cluster", a.Address)
	}
	return nil
}

// change changes who is a member. Changes go one after the other, and none depends on what was before: those that come
// late, after their wait was given up, do no more than they would have done then.
func (b *Backend) change(ctx context.Context, do func(timeout time.Duration) raft.IndexFuture) error {
	timeout := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), time.Millisecond)
	}
	_, err := aside(ctx, &b.asides, func() (struct{}, error) { return struct{}{}, do(timeout).Error() })
	return unapplied(err)
}

// Leave removes the node from its cluster, so that the others no longer count on it, and waits for that until ctx ends. A
// raft leader hands its office over before. From its call on, the node answers nobody; it still has to be closed. A node
// that has left and is opened again joins again. The last node cannot leave, and does nothing. One that has found no
// cluster yet may be about to become a member, so that it waits for one too; and the last one that has a vote waits for
// those without.
func (b *Backend) Leave(ctx context.Context) error {
	if err := errors.Join(b.Check(), ctx.Err()); err != nil {
		return err
	}
	b.left.Store(true)
	for !b.alone() {
		news := b.changes.listen()
		b.handOver(ctx)
		err := b.remove(ctx, b.config.Advertise)
		if err == nil || !isElsewhere(err) {
			return err
		}
		if err := b.Check(); err != nil {
			return err
		}
		select {
		case <-news:
		case <-time.After(enlistEvery):
		case <-ctx.Done():
			return unavailable(ctx, err)
		}
	}
	return nil
}

// Remove removes the node with an address of [Config].Peers, which is lost for good, from the cluster, so that it no
// longer counts for the quorum. It may be called on any node that has one. A node that is not lost comes back at once, as
// long as the raft leader has it among its peers.
func (b *Backend) Remove(ctx context.Context, address string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	return b.remove(ctx, address)
}

func (b *Backend) remove(ctx context.Context, address string) error {
	l := handler{b}.Hello()
	if l.Leader == "" { // the raft leader says nothing more to one that is removed
		l = leaderOf(b.greet(ctx))
	}
	var a wire.Admission
	var err error
	switch l.Leader {
	case "":
		err = elsewhereError{b.noLeader()}
	case b.stores.id:
		a = handler{b}.Dismiss(ctx, address)
	default:
		a, err = b.port.AskDismissal(ctx, l.Leader, l.At, address)
	}
	if errors.Is(err, wire.ErrUnsent) {
		err = elsewhereError{err}
	}
	if err == nil {
		err = faultError(a.Fault, a.Text)
	}
	if err != nil {
		return b.classify(ctx, err)
	}
	return nil
}

// Dismiss implements [wire.Handler].
func (b handler) Dismiss(ctx context.Context, address string) wire.Admission {
	b.admitting.Lock()
	defer b.admitting.Unlock()
	f, text := fault(b.dismiss(ctx, address))
	return wire.Admission{Fault: f, Text: text}
}

func (b *Backend) dismiss(ctx context.Context, address string) error {
	if b.office.Load() == nil {
		return elsewhereError{errNoLeader}
	}
	if address == b.config.Advertise {
		return elsewhereError{fmt.Errorf("%s is the raft leader", address)}
	}
	for _, s := range b.servers() {
		if s.Address == raft.ServerAddress(address) {
			return b.change(ctx, func(t time.Duration) raft.IndexFuture {
				return b.raft.RemoveServer(s.ID, 0, t)
			})
		}
	}
	return nil
}
