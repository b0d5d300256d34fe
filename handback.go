package leader

import (
	"context"
	"math"
	"time"
)

// handingBack is an action that leads until a better candidate has been better for long enough.
func (o *outlook) handingBack(lead Action) Action {
	if o.e.config.given&givenHandBack == 0 {
		return lead
	}
	return func(ctx context.Context) error {
		l, ok := ctx.Value(leaseKey{}).(*Lease)
		if !ok {
			return lead(ctx)
		}
		watching, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.watchBetter(watching, l.h)
		}()
		defer func() { stop(); <-done }()
		return lead(ctx)
	}
}

// watchBetter ends the lease's context when another candidate's score has been better than this node's, by more than
// the hysteresis and without a break, for the time to hold. Whoever leads next starts to count anew, so that scores which
// go up and down cause at most one change in that time.
func (o *outlook) watchBetter(ctx context.Context, h *hold) {
	var since instant
	step := min(o.heartbeat(), o.e.config.handBackHeld/4)
	for ctx.Err() == nil {
		pause(ctx, max(step, 10*time.Millisecond))
		v, err := o.refresh(ctx)
		if err != nil {
			continue // what cannot be seen is no reason to go, nor one to begin anew
		}
		now := o.e.clock.now()
		switch {
		case !o.outscored(v):
			since = 0
		case since == 0:
			since = now
		case since.until(now) >= o.e.config.handBackHeld:
			h.end(lost(ErrHandBack, nil))
			return
		}
	}
}

// outscored reports whether another candidate that may be elected is better enough.
func (o *outlook) outscored(v *view) bool {
	m := o.enrolled()
	if m == nil {
		return false
	}
	e := o.election(v)
	own, ok := e.Scores[m.node]
	if !ok {
		return false
	}
	better := e.Scores[e.Winner]
	return e.Winner != m.node && (better > own+o.e.config.handBackBetter || math.IsNaN(own) && !math.IsNaN(better))
}
