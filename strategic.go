package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const defaultCandidateTTL = 15 * time.Second

// StrategicElector elects the candidate that a [Strategy] prefers. The strategy decides who may try, the lease decides
// who wins: two nodes with different views still exclude each other, and a strategic and a plain elector of one name do
// too. All methods may be called concurrently.
type StrategicElector interface {
	// RunIfLeader is [Runner.RunIfLeader] for a node that the strategy prefers. On another it is skipped, with reason
	// NotPreferred, once the wait time is used up, and so it is on a node that is not enrolled while others are. With
	// nobody enrolled it is a plain election.
	Runner

	// Campaign is [Elector.Campaign] for a node that the strategy prefers, whenever it does. A leader whose action
	// returned, or that released its lease, is passed over for one candidate TTL.
	Campaign(ctx context.Context, name string, lead Action, opts ...RunOption) error

	// Enroll makes this node a candidate of name until it leaves, or ctx ends. A newer enrolment of the same node takes
	// over its seat, with all that is known of it, and the older one gets [ErrReplaced].
	Enroll(ctx context.Context, name string, c Candidate) (*Membership, error)

	// Election asks the store for the candidates, and explains whom the strategy prefers.
	Election(ctx context.Context, name string) (Election, error)
}

// Strategic is the [StrategicElector] that [NewStrategic] returns. Use NewStrategic: the zero value is not ready.
type Strategic struct {
	e        *engine
	strategy Strategy

	mu       sync.Mutex
	outlooks map[string]*outlook // by name
}

var _ StrategicElector = (*Strategic)(nil)

// NewStrategic returns an elector that prefers candidates by a strategy. The backend must keep records
// ([ErrUnsupported]).
func NewStrategic(d backend.Driver, s Strategy, opts ...Option) (*Strategic, error) {
	var wrong []error
	refuse := func(rule string) {
		wrong = append(wrong, fmt.Errorf("leader: new strategic elector: %w: %s", ErrInvalidOption, rule))
	}
	if s == nil {
		refuse("the strategy is nil")
	}
	if _, ok := s.(scored); !ok && s != nil && handsBack(opts) {
		refuse("WithHandBack: needs the strategy Scored")
	}
	e, err := newEngine(d, 0, opts)
	if err := errors.Join(append(wrong, err)...); err != nil {
		return nil, err
	}
	if e.records == nil {
		return nil, fmt.Errorf("leader: new strategic elector: %w: %s keeps no records", ErrUnsupported, d.Name())
	}
	return &Strategic{e: e, strategy: s, outlooks: make(map[string]*outlook)}, nil
}

// RunIfLeader implements [StrategicElector].
func (s *Strategic) RunIfLeader(
	ctx context.Context, name string, action Action, opts ...RunOption,
) (r RunResult, err error) {
	c, err := s.e.newCall(opRun, name, action, opts)
	if err != nil {
		return r, err
	}
	o := s.outlook(name)
	c.gate = o
	err = s.e.run(ctx, c, o.recorded(action), &r)
	return r, err
}

// Campaign implements [StrategicElector].
func (s *Strategic) Campaign(ctx context.Context, name string, lead Action, opts ...RunOption) error {
	c, err := s.e.newCall(opCampaign, name, lead, opts)
	if err != nil {
		return err
	}
	o := s.outlook(name)
	c.gate = o
	return s.e.campaign(ctx, c, o.recorded(o.handingBack(lead)))
}

// Election implements [StrategicElector].
func (s *Strategic) Election(ctx context.Context, name string) (Election, error) {
	if err := checkName("name", name); err != nil {
		return Election{}, inv("election", err)
	}
	o := s.outlook(name)
	v, err := o.refresh(ctx)
	if err != nil {
		return Election{}, err
	}
	return o.election(v), nil
}

// outlook returns what this elector knows of the candidates of a name.
func (s *Strategic) outlook(name string) *outlook {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outlooks[name]
	if o == nil {
		key := keyOf(s.e.config.namespace, name)
		o = &outlook{e: s.e, strategy: s.strategy, name: name, key: key, set: recordSet(key, "candidate")}
		s.outlooks[name] = o
	}
	return o
}

// handsBack reports whether WithHandBack is among the options.
func handsBack(opts []Option) bool {
	var c config
	for _, o := range opts {
		if o != nil {
			c = o.apply(c)
		}
	}
	return c.given&givenHandBack != 0
}
