package schedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// skewedClock is the clock of a node that is ahead of the others.
type skewedClock struct {
	systemClock

	by time.Duration
}

func (c skewedClock) now() time.Time { return c.systemClock.now().Add(c.by) }

func TestJob_ClocksOfNodesDiffer_RunsEachFireTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		ctx, cancel := context.WithCancel(t.Context())
		fires := make(chan time.Time, 1000)
		ended := make(chan error)
		for _, skew := range []time.Duration{-time.Hour, 0, 700 * time.Millisecond, 3 * time.Second, time.Hour} {
			j, err := New(newLocalElector(t, store), "job", Every(2*time.Second), func(ctx context.Context) error {
				fire, _ := FireTime(ctx)
				fires <- fire
				return nil
			}, WithRunOptions(leader.WithWaitTime(time.Second))) // they come to different fire times at one moment
			if err != nil {
				t.Fatal(err)
			}
			j.clock = skewedClock{by: skew}
			go func() { ended <- j.Run(ctx) }()
		}
		time.Sleep(5*time.Minute + time.Second)
		cancel()
		for range 5 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		close(fires)
		var ran []time.Time
		for fire := range fires {
			ran = append(ran, fire)
		}
		checkNoneTwice(t, ran)
		// An hour apart and minutes long, the fire times of three groups of nodes do not meet; each is done by one node.
		if len(ran) < 3*150 || len(ran) > 3*152 {
			t.Errorf("%d runs, want about 150 for each group of nodes", len(ran))
		}
	})
}
