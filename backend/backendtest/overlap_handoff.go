package backendtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// notified is how long a waiter may take to notice a release where the store tells of it: well under the time after
	// which the engine looks without being told.
	notified = 2 * time.Second
	// polled is the same where the store does not tell.
	polled = 4 * time.Second
	// handOffLease is so long that no hand-off comes about by an expiry.
	handOffLease = time.Minute
)

// handOff releases one name after another, for each of which the contender waits.
func (c OverlapConfig) handOff(t *testing.T) {
	address := c.Start(t)
	d := c.Dial(t, address)
	lease := handOffLease
	if high := limitsOf(d).MaxTTL; high > 0 {
		lease = min(lease, high)
	}
	newDuel(t, d, c.Dial(t, address), lease, 0).passOn(t).judge(t)
}

// tells reports whether the store tells of releases. A driver may learn that it does not only when it is asked.
func tells(t testing.TB, d backend.Driver, held string) bool {
	t.Helper()
	w, ok := backend.As[backend.Waiter](d)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), notified)
	defer cancel()
	return !errors.Is(w.AwaitRelease(ctx, held, "not as it was seen"), errors.ErrUnsupported)
}

// passOn hands all names to the contender, and ends when both have gone.
func (d *duel) passOn(t testing.TB) outcome {
	t.Helper()
	within := polled
	if tells(t, d.contender.scout, d.holder.leases[0].Info().Key) {
		within = notified
	}
	released := make(map[string]moment)
	for _, l := range d.holder.leases {
		name := l.Info().Name
		released[name] = thisMoment()
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release of %q: %v", name, err)
		}
		until(t, "the contender leads what was released", func() bool { return d.contender.leads(name) != nil })
	}
	d.leave(t)
	o := outcome{
		holder: d.holder.holdings(), contender: d.contender.holdings(),
		from: func(name string) moment { return released[name] }, since: "the release",
	}
	for i, wait := range o.takeovers() {
		if limit := within + d.contender.longestStall(); wait > limit {
			t.Errorf("%v: led %v after the release, want at most %v", o.handovers()[i], wait, limit)
		}
	}
	return o
}
