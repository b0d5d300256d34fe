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
	foreign    []string  // keys of records that are no candidates
	now        time.Time // by the store's clock
	at         instant   // when it came
}

// idle is for how long a preferred candidate leaves a lease untaken that this node wants.
type idle struct {
	node  string
	start time.Time // its last start, which moves when it takes the lease for a short while
	first instant   // when this node was refused for it
	last  instant
}

// heartbeat is the time between two heartbeats of a candidate.
func (o *outlook) heartbeat() time.Duration { return o.e.config.candidateTTL / 3 }

// allow reports whether this node may try for the lease. It costs at most one listing, and none if the last one says
// that another node is preferred.
func (o *outlook) allow(ctx context.Context) (bool, error) {
	o.mu.Lock()
	member, v := o.member, o.view
	o.mu.Unlock()
	if member == nil || v == nil || v.at.until(o.e.clock.now()) >= o.heartbeat() || !v.has(member) ||
		o.winner(v) == member.node {
		var err error
		if v, err = o.refresh(ctx); err != nil {
			return false, err
		}
	}
	if member == nil {
		return len(v.candidates) == 0, nil
	}
	winner := o.winner(v)
	if winner == member.node {
		return true, nil
	}
	o.refused(v, winner)
	return false, nil
}

// refused notes that this node wants the lease, and leaves it to the winner.
func (o *outlook) refused(v *view, winner string) {
	s, ok := v.find(winner)
	now := o.e.clock.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !ok:
	case o.idle.node != s.Node, !o.idle.start.Equal(s.LastStart):
		o.idle = idle{node: s.Node, start: s.LastStart, first: now, last: now}
	default:
		o.idle.last = now
	}
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
		if s, ok := readSeat(o.set, r); ok {
			v.candidates = append(v.candidates, s)
		} else {
			v.foreign = append(v.foreign, r.Key)
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

// seated makes m the member of this elector. From one that it replaces it takes what the store was not told yet.
func (o *outlook) seated(m *Membership) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old := o.member; old != nil && old.enrolment == m.replaces {
		old.mu.Lock()
		seat := old.seat
		old.mu.Unlock()
		m.mu.Lock()
		m.seat.inherit(seat)
		m.mu.Unlock()
	}
	o.member = m
}

// has reports whether the view is from after m took its seat.
func (v *view) has(m *Membership) bool {
	s, ok := v.find(m.node)
	return ok && s.Enrolment == m.enrolment
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
	var own string
	var excluded time.Time
	if o.member != nil {
		own, excluded = o.member.node, o.member.excludedUntil() // also if the store could not be told
		delete(passed, own)                                     // its own try is all that it takes
	}
	o.mu.Unlock()
	why := make(map[string]string)
	for _, s := range v.candidates {
		switch _, untaken := passed[s.Node]; {
		case s.ExcludedUntil.After(now), s.Node == own && excluded.After(now):
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
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil, !ok, !h.Free(), o.idle.node != winner.Node, !o.idle.start.Equal(winner.LastStart):
		o.idle = idle{}
	case o.idle.first.until(o.idle.last) >= o.e.config.fallbackAfter:
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
		m := o.enrolled()
		if m == nil {
			return action(ctx)
		}
		m.started()
		err := ErrNoReturn
		defer func() {
			if now := o.enrolled(); now != nil {
				m = now // which took over, if the node was enrolled anew meanwhile
			}
			m.finished(ctx, err)
		}()
		err = action(ctx)
		return err
	}
}

// parting makes the node sit out for a while if its term ended by its own will, before the lease is released.
func (o *outlook) parting(ctx context.Context, lost error) {
	own := lost == nil || errors.Is(lost, ErrReleased) || errors.Is(lost, ErrHandBack)
	if m := o.enrolled(); own && m != nil {
		m.sitOut(ctx)
	}
}

// enrolled returns the member of this elector, nil if there is none.
func (o *outlook) enrolled() *Membership {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.member
}
