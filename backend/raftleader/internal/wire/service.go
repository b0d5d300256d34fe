package wire

import (
	"context"
	"time"
)

// service is the name under which a node's methods are called.
const service = "leader"

const (
	methodHello   = service + ".Hello"
	methodServe   = service + ".Serve"
	methodAdmit   = service + ".Admit"
	methodDismiss = service + ".Dismiss"
	methodTerm    = service + ".Term"
)

// Nothing is the argument of a method that needs none. It has a field because gob does not encode an empty struct.
type Nothing struct{ None bool }

// Naming names a node for a method.
type Naming struct {
	Address string
	Within  time.Duration
}

// Applying is an application, and how long it may take.
type Applying struct {
	Applicant Applicant
	Within    time.Duration
}

// Term is the answer to the question for a term.
type Term struct{ Term uint64 }

// hellos has the methods for everybody.
type hellos struct{ port *Port }

// Hello answers with what the node says of itself.
func (s *hellos) Hello(_ *Nothing, h *Hello) error {
	*h = s.port.Handler.Hello()
	return nil
}

// calls has the methods for those who know whom they talk to.
type calls struct{ port *Port }

// Serve answers a request.
func (s *calls) Serve(r *Request, a *Answer) error {
	ctx, cancel := s.within(r.Within)
	defer cancel()
	*a = s.port.Handler.Serve(ctx, *r)
	return nil
}

// Admit answers an application.
func (s *calls) Admit(r *Applying, a *Admission) error {
	ctx, cancel := s.within(r.Within)
	defer cancel()
	*a = s.port.Handler.Admit(ctx, r.Applicant)
	return nil
}

// Dismiss removes a node.
func (s *calls) Dismiss(r *Naming, a *Admission) error {
	ctx, cancel := s.within(r.Within)
	defer cancel()
	*a = s.port.Handler.Dismiss(ctx, r.Address)
	return nil
}

// Term answers with the newest term that the node knows.
func (s *calls) Term(_ *Nothing, t *Term) error {
	t.Term = s.port.Handler.Term()
	return nil
}

// within returns the context of a request, which ends with the port.
func (s *calls) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.port.ctx, d)
}
