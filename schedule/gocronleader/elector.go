package gocronleader

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/goleader/leader"
)

// Elector lets the jobs of a scheduler run while this node leads. All methods may be called concurrently.
type Elector struct {
	elector leader.Elector
	name    string
	opts    []leader.RunOption
	leased  atomic.Pointer[context.Context] // of the lease; nil while this node does not lead
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an elector that leads under a name while [Elector.Run] runs. The options are those of Campaign.
func NewElector(e leader.Elector, name string, opts ...leader.RunOption) *Elector {
	return &Elector{elector: e, name: name, opts: opts}
}

// Run campaigns until ctx ends; for what it returns see [leader.Elector]. Shut the scheduler down before ending ctx, so
// that its jobs end before another node leads.
func (e *Elector) Run(ctx context.Context) error {
	return e.elector.Campaign(ctx, e.name, func(leased context.Context) error {
		e.leased.Store(&leased)
		defer e.leased.Store(nil) //nolint:contextcheck // it is none, which is the point
		<-leased.Done()
		return nil
	}, e.opts...)
}

// IsLeader is nil while this node leads under a lease that it may trust, and wraps [leader.ErrNotElected] otherwise. It
// asks no store. The lease may be lost while a job runs; [Elector.Task] makes a job notice.
func (e *Elector) IsLeader(context.Context) error {
	_, err := e.lease("ask for")
	return err
}

// Task is action as a function for gocron.NewTask. Its context is that of the lease, which ends when the lease is lost,
// and ends when gocron's does as well. A lost lease is an error of the job. On a node that does not lead, it does not run.
func (e *Elector) Task(action leader.Action) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		leased, err := e.lease("run under")
		if err != nil {
			return err
		}
		return under(ctx, leased, action)
	}
}

// lease is the context of the lease, if this node leads.
func (e *Elector) lease(to string) (context.Context, error) {
	if leased := e.leased.Load(); leased != nil && (*leased).Err() == nil {
		return *leased, nil
	}
	return nil, fmt.Errorf("gocronleader: %s %q: %w", to, e.name, leader.ErrNotElected)
}
