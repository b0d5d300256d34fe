package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goleader/leader/backend"
)

// GroupElector elects up to a number of leaders per name, each of which has a slot. All methods may be called
// concurrently.
type GroupElector interface {
	// RunIfLeader is [Runner.RunIfLeader] with a lease of any free slot. Contended means that all slots are taken.
	Runner

	// Acquire hands out the lease of any free slot, as [Elector.Acquire] does.
	Acquire(ctx context.Context, name string, opts ...RunOption) (*Lease, error)

	// Campaign leads in any slot, as [Elector.Campaign] does.
	Campaign(ctx context.Context, name string, lead Action, opts ...RunOption) error

	// State asks the store who holds the slots. The answer may be over by the time it is read.
	State(ctx context.Context, name string) (GroupState, error)
}

// maxSlots is the most slots that a group may have.
const maxSlots = 10_000

// Group is the [GroupElector] that [NewGroup] returns. Use NewGroup: the zero value is not ready.
type Group struct{ e *engine }

var _ GroupElector = (*Group)(nil)

// NewGroup returns an elector of up to slots leaders per name; slots must be 1 to 10,000. Each slot is a lease with a
// fence of its own, so a resource that checks fences keeps one for each slot. Electors of one name may differ in their
// number of slots, as they do during a rollout: never more than the largest number lead, and when the last elector with
// a larger number has released, those of the smaller number lead.
//
// A group and a plain elector of one name have nothing to do with each other.
func NewGroup(d backend.Driver, slots int, opts ...Option) (*Group, error) {
	var bad error
	switch {
	case slots < 1:
		bad = inv("new group", fmt.Errorf("%w: slots(%d): must be at least 1", ErrInvalidOption, slots))
	case slots > maxSlots:
		bad = inv("new group", fmt.Errorf("%w: slots(%d): must be at most %d", ErrInvalidOption, slots, maxSlots))
	}
	e, err := newEngine(d, min(max(slots, 1), maxSlots), opts)
	if err := errors.Join(bad, err); err != nil {
		return nil, err
	}
	return &Group{e}, nil
}

// RunIfLeader implements [GroupElector].
func (g *Group) RunIfLeader(
	ctx context.Context, name string, action Action, opts ...RunOption,
) (r RunResult, err error) {
	c, err := g.e.newCall(opRun, name, action, opts)
	if err == nil {
		err = g.e.run(ctx, c, action, &r)
	}
	return r, err
}

// Acquire implements [GroupElector].
func (g *Group) Acquire(ctx context.Context, name string, opts ...RunOption) (*Lease, error) {
	c, err := g.e.newCall(opAcquire, name, nil, opts)
	if err != nil {
		return nil, err
	}
	return g.e.handOut(ctx, c)
}

// Campaign implements [GroupElector].
func (g *Group) Campaign(ctx context.Context, name string, lead Action, opts ...RunOption) error {
	c, err := g.e.newCall(opCampaign, name, lead, opts)
	if err != nil {
		return err
	}
	return g.e.campaign(ctx, c, lead)
}

// State implements [GroupElector].
func (g *Group) State(ctx context.Context, name string) (GroupState, error) {
	if err := checkName("name", name); err != nil {
		return GroupState{}, inv("state", err)
	}
	return g.e.groupState(ctx, name)
}

// GroupState is who holds the slots of a name. Like a [State] it is for people, not for deciding whether to act.
type GroupState struct {
	Name   string
	Slots  int         // of this elector
	Active []SlotState // the taken ones of them, by number
}

// SlotState is a taken slot.
type SlotState struct {
	Slot int
	State
}

// atOnce is how many slots are asked about at a time.
const atOnce = 16

func (e *engine) groupState(ctx context.Context, name string) (GroupState, error) {
	key := keyOf(e.config.namespace, name)
	holders := make([]backend.Holder, e.config.slots)
	errs := make([]error, e.config.slots)
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for slot := range holders {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			holders[slot], errs[slot] = e.look(ctx, name, backend.SlotKey(key, slot))
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return GroupState{}, err
	}
	s := GroupState{Name: name, Slots: e.config.slots}
	for slot, h := range holders {
		if !h.Free() {
			s.Active = append(s.Active, SlotState{slot, stateOf(name, h)})
		}
	}
	return s, nil
}
