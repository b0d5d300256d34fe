package leader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// outlook is what a strategic elector knows of the candidates of one name, and whether its own node may try for the
// lease. The last listing is kept for as long as it is not older than a heartbeat.
type outlook struct {
	e        *engine
	strategy Strategy
	name     string
	key      string
	set      string // of the candidates' records

	mu     sync.Mutex
	member *Membership // the newest of this elector; nil without one
	view   *view
	idle   idle
	passed map[string]time.Time // preferred candidates that leave the lease untaken, with their last start
}

// view is a listing of the candidates.
type view struct {
	candidates []seat
	now        time.Time // by the store's clock
	at         instant   // when it came
}

// idle is since when a preferred candidate leaves a free lease untaken.
type idle struct {
	node  string
	start time.Time // its last start, which moves when it takes the lease for a short while
	since instant
}

// heartbeat is the time between two heartbeats of a candidate.
func (o *outlook) heartbeat() time.Duration { return o.e.config.candidateTTL / 3 }

// allow reports whether this node may try for the lease. It costs at most one listing, and none if the last one says
// that another node is preferred.
func (o *outlook) allow(ctx context.Context) (bool, error) {
	o.mu.Lock()
	member, v := o.member, o.view
	o.mu.Unlock()
	if member != nil && v != nil && v.at.until(o.e.clock.now()) < o.heartbeat() && o.winner(v) != member.node {
		return false, nil
	}
	v, err := o.refresh(ctx)
	switch {
	case err != nil:
		return false, err
	case member == nil:
		return len(v.candidates) == 0, nil
	}
	return o.winner(v) == member.node, nil
}

// refresh lists the candidates.
func (o *outlook) refresh(ctx context.Context) (*view, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx, "record", o.name)
	}
	list, err := o.e.getRecords(ctx, o.name, o.set)
	if err != nil {
		return nil, err
	}
	v := &view{now: list.now, at: o.e.clock.now()}
	for _, r := range list.records {
		if s, ok := readSeat(r); ok {
			v.candidates = append(v.candidates, s)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.view = v
	maps.DeleteFunc(o.passed, func(node string, start time.Time) bool {
		s, ok := v.find(node)
		return !ok || !s.LastStart.Equal(start) // it has gone, or takes the lease again
	})
	return v, nil
}

// forget makes the next question whether this node may try a listing.
func (o *outlook) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.view = nil
}

func (v *view) find(node string) (seat, bool) {
	i := slices.IndexFunc(v.candidates, func(s seat) bool { return s.Node == node })
	if i < 0 {
		return seat{}, false
	}
	return v.candidates[i], true
}

// time is the store's clock at a local instant.
func (v *view) time(now instant) time.Time { return v.now.Add(v.at.until(now)) }

func (o *outlook) winner(v *view) string { return o.election(v).Winner }

// election asks the strategy about those who may be elected, and says of the others why they may not.
func (o *outlook) election(v *view) Election {
	now := v.time(o.e.clock.now())
	o.mu.Lock()
	passed := maps.Clone(o.passed)
	o.mu.Unlock()
	why := make(map[string]string)
	for _, s := range v.candidates {
		switch _, untaken := passed[s.Node]; {
		case s.ExcludedUntil.After(now):
			why[s.Node] = "sits out after it resigned"
		case untaken:
			why[s.Node] = "leaves the lease untaken"
		}
	}
	if len(why) == len(v.candidates) {
		clear(why) // somebody has to lead
	}
	var list []Candidate
	for _, s := range v.candidates {
		if why[s.Node] == "" {
			list = append(list, s.Candidate)
		}
	}
	e := o.strategy.Elect(list, now)
	if len(why) > 0 && e.Eliminated == nil {
		e.Eliminated = make(map[string]string)
	}
	maps.Copy(e.Eliminated, why)
	return e
}

// observe looks whether a preferred candidate leaves a free lease untaken, and passes it over when that lasts.
func (o *outlook) observe(ctx context.Context, v *view) {
	winner, ok := v.find(o.winner(v))
	h, err := o.e.inspect(ctx, o.key)
	now := o.e.clock.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := idle{node: winner.Node, start: winner.LastStart, since: now}
	switch {
	case err != nil, !ok, !h.Free():
		o.idle = idle{}
	case o.idle.node != seen.node, !o.idle.start.Equal(seen.start):
		o.idle = seen
	case o.idle.since.until(now) >= o.e.config.fallbackAfter:
		if o.passed == nil {
			o.passed = make(map[string]time.Time)
		}
		o.passed[winner.Node] = winner.LastStart
		o.idle = idle{}
	}
}

// recorded is the action with its result noted in the candidate's counters.
func (o *outlook) recorded(action Action) Action {
	if action == nil {
		return nil
	}
	return func(ctx context.Context) error {
		o.mu.Lock()
		m := o.member
		o.mu.Unlock()
		if m == nil {
			return action(ctx)
		}
		m.started()
		err := ErrNoReturn
		defer func() { m.finished(ctx, err) }()
		err = action(ctx)
		return err
	}
}

// resigning is an action whose end by its own will makes the node sit out for a while, before the lease is released.
func (o *outlook) resigning(lead Action) Action {
	return func(ctx context.Context) error {
		err := lead(ctx)
		own := ctx.Err() == nil || errors.Is(context.Cause(ctx), ErrReleased)
		if own || errors.Is(context.Cause(ctx), ErrHandBack) {
			o.sitOut(ctx)
		}
		return err
	}
}

func (o *outlook) sitOut(ctx context.Context) {
	o.mu.Lock()
	m := o.member
	o.mu.Unlock()
	if m != nil {
		m.sitOut(ctx)
	}
}
