package wire

import (
	"context"
	"time"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

// AskHello asks who listens at an address.
func (p *Port) AskHello(ctx context.Context, address string) (Hello, error) {
	h := new(Hello)
	if err := p.call(ctx, Hellos, target{"", address, false}, methodHello, &Nothing{}, h, nil); err != nil {
		return Hello{}, err // a reply that comes later is written to h
	}
	return *h, nil
}

// AskTerm asks a server for the newest term that it knows.
func (p *Port) AskTerm(ctx context.Context, id, address string) (uint64, error) {
	t := new(Term)
	if err := p.call(ctx, Calls, target{id, address, false}, methodTerm, &Nothing{}, t, nil); err != nil {
		return 0, err
	}
	return t.Term, nil
}

// Ask asks the raft leader. The wait ends when gone is closed, too.
//
// The leader may answer the requests of one line in any order. So an attempt to acquire that was given up is settled
// before its token is abandoned: or it could come later, when the token is no longer known as spent.
func (p *Port) Ask(ctx context.Context, id, address string, r Request, gone <-chan struct{}) (Answer, error) {
	if r.Command.Kind == machine.Abandon {
		if err := p.given.await(ctx, attempt{id, r.Command.Token}); err != nil {
			return Answer{}, err
		}
	}
	a := new(Answer)
	r.Within = left(ctx, r.Within)
	err := p.call(ctx, Calls, target{id, address, r.Topic == Await}, methodServe, &r, a, gone)
	if err != nil {
		return Answer{}, err // a reply that comes later is written to a
	}
	return *a, nil
}

// AskAdmission applies for membership.
func (p *Port) AskAdmission(ctx context.Context, id, address string, by Applicant) (Admission, error) {
	a := new(Admission)
	r := &Applying{by, left(ctx, longest)}
	if err := p.call(ctx, Calls, target{id, address, false}, methodAdmit, r, a, nil); err != nil {
		return Admission{}, err
	}
	return *a, nil
}

// AskDismissal asks the raft leader to remove the node at an address.
func (p *Port) AskDismissal(ctx context.Context, id, address, whom string) (Admission, error) {
	a := new(Admission)
	r := &Naming{whom, left(ctx, longest)}
	if err := p.call(ctx, Calls, target{id, address, false}, methodDismiss, r, a, nil); err != nil {
		return Admission{}, err
	}
	return *a, nil
}

// longest bounds a call whose context has no end.
const longest = 10 * time.Second

// left is the time until ctx ends, at most the given one unless that is 0.
func left(ctx context.Context, most time.Duration) time.Duration {
	if most == 0 {
		most = longest
	}
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline))
	}
	return most
}
