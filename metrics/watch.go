package metrics

import (
	"context"
	"iter"
	"time"

	"github.com/goleader/leader"
)

// Watcher is the part of an elector that [Observer.Watch] needs; [leader.Elector] has it.
type Watcher interface {
	Watch(ctx context.Context, name string) iter.Seq2[leader.State, error]
}

// Watch follows who leads under a name, and tells the sink for each hand-over how long nobody led. It is for names that
// somebody is to lead all the time. It returns nil when ctx ends, and the error after which the elector's Watch ends.
//
// It measures between what it sees, by the local clock: to a few milliseconds where the store tells of changes, else to
// the second that may pass between two looks. A leader that follows another without a gap seen counts as a gap of 0. The
// time for which a minimum lease keeps a name is no gap, and what happens while the store cannot be asked is not seen.
func (o *Observer) Watch(ctx context.Context, w Watcher, name string) error {
	var g gap
	for state, err := range w.Watch(ctx, name) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if took, ok := g.see(state, time.Now()); ok {
			o.sink.HandedOver(ctx, o.name(name), took)
		}
	}
	return nil
}

// gap follows the states of one name.
type gap struct {
	fence uint64    // of the leader seen last; 0 before the first and after an outage
	free  time.Time // since when nobody leads; zero while somebody does
}

// see takes in a state. It reports true when another lease has begun, and how long there was none.
func (g *gap) see(s leader.State, now time.Time) (took time.Duration, ok bool) {
	switch {
	case s.Stale:
		*g = gap{}
	case s.Kept:
		g.free = time.Time{}
	case s.Node == "":
		if g.fence != 0 && g.free.IsZero() {
			g.free = now
		}
	default:
		took, ok = g.lead(s.Fence, now)
	}
	return took, ok
}

// lead takes in who leads.
func (g *gap) lead(fence uint64, now time.Time) (took time.Duration, ok bool) {
	ok = g.fence != 0 && g.fence != fence
	if ok && !g.free.IsZero() {
		took = now.Sub(g.free)
	}
	g.fence, g.free = fence, time.Time{}
	return took, ok
}
