package metrics_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics"
)

// seen is what a watcher shows, and after how long.
type seen struct {
	after time.Duration
	state leader.State
	err   error
}

// film is a watcher that shows what it is told to.
type film []seen

func (f film) Watch(ctx context.Context, _ string) iter.Seq2[leader.State, error] {
	return func(yield func(leader.State, error) bool) {
		for _, s := range f {
			select {
			case <-time.After(s.after):
			case <-ctx.Done():
				return
			}
			if !yield(s.state, s.err) {
				return
			}
		}
	}
}

func TestObserver_Watch_TellsForHowLongNobodyLed(t *testing.T) {
	led := func(fence uint64) leader.State { return leader.State{Node: "n", Fence: fence} }
	free := leader.State{}
	rows := map[string]struct {
		film film
		want []time.Duration
	}{
		"a first leader": {
			film{{0, free, nil}, {time.Second, led(1), nil}}, nil,
		},
		"a gap": {
			film{{0, led(1), nil}, {time.Minute, free, nil}, {time.Second, led(2), nil}}, []time.Duration{time.Second},
		},
		"a gap seen twice": {
			film{{0, led(1), nil}, {0, free, nil}, {time.Second, free, nil}, {time.Second, led(2), nil}},
			[]time.Duration{2 * time.Second},
		},
		"a leader right after another": {
			film{{0, led(1), nil}, {time.Second, led(2), nil}}, []time.Duration{0},
		},
		"a leader that is shown again": {
			film{{0, led(1), nil}, {time.Second, led(1), nil}}, nil,
		},
		"a name that is kept": {
			film{{0, led(1), nil}, {time.Second, leader.State{Kept: true}, nil}, {time.Minute, led(2), nil}},
			[]time.Duration{0},
		},
		"a name that was kept": {
			film{
				{0, led(1), nil},
				{time.Second, leader.State{Kept: true}, nil},
				{time.Minute, free, nil},
				{time.Second, led(2), nil},
			},
			[]time.Duration{time.Second},
		},
		"an outage": {
			film{{0, led(1), nil}, {time.Second, leader.State{Node: "n", Fence: 1, Stale: true}, nil}, {time.Minute, led(2), nil}}, nil,
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := &log{}
				if err := metrics.NewObserver(told, nil).Watch(t.Context(), row.film, "a"); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(told.gaps, row.want) {
					t.Errorf("gaps %v, want %v", told.gaps, row.want)
				}
			})
		})
	}
}

func TestObserver_Watch_ReturnsTheErrorThatEndsIt(t *testing.T) {
	err := metrics.NewObserver(&log{}, nil).Watch(t.Context(), film{{0, leader.State{}, leader.ErrDenied}}, "a")
	if !errors.Is(err, leader.ErrDenied) {
		t.Errorf("returned %v", err)
	}
}

func TestObserver_Watch_SeesAHandOverBetweenElectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gap = 10 * time.Second
		store, told := local.New(), &log{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- metrics.NewObserver(told, nil).Watch(ctx, elector(t, store, leader.Hooks{}), "a")
		}()
		for range 2 {
			if _, err := elector(t, store, leader.Hooks{}).RunIfLeader(ctx, "a", works(10*time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(gap)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// The store may be asked only once a second.
		if len(told.gaps) != 1 || told.gaps[0] < gap-2*time.Second || told.gaps[0] > gap+2*time.Second {
			t.Errorf("gaps %v, want one of about %v", told.gaps, gap)
		}
	})
}
