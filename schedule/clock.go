package schedule

import (
	"context"
	"time"
)

// clock is the wall clock. Tests step it, which virtual time cannot.
type clock interface {
	now() time.Time
	// pause waits for d, or until ctx ends.
	pause(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

// now is without the monotonic reading: fire times are instants of the wall clock.
func (systemClock) now() time.Time { return time.Now().Round(0) }

func (systemClock) pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
