package leader

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader/backend/local"
)

// machine stands for the clocks of a machine that can sleep and whose wall clock can be set.
type machine struct {
	slept time.Duration
	asked int
	blind bool // it cannot tell how long it slept
}

func (m *machine) suspended() (time.Duration, bool) {
	m.asked++
	return m.slept, !m.blind
}

// sleep lets the machine sleep: its wall clock goes on, its monotonic clock and timers stand still.
func (m *machine) sleep(c *clock, d time.Duration) {
	m.slept += d
	setWall(c, d)
}

// setWall steps the wall clock by d, as c sees it.
func setWall(c *clock, d time.Duration) { c.baseline.Add(-int64(d)) }

func newMachine() (*machine, *clock) {
	m := &machine{}
	c := newClock()
	c.suspended, c.seen = m.suspended, 0
	return m, c
}

func TestClock_CountsTheTimeThatTheMachineSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMachine()
		time.Sleep(time.Second)
		m.sleep(c, time.Hour)
		if got := c.now(); got != instant(time.Second+time.Hour) {
			t.Errorf("now is %v, want 1s and an hour", time.Duration(got))
		}
		time.Sleep(time.Second)
		m.sleep(c, time.Minute)
		if got := c.now(); got != instant(2*time.Second+time.Hour+time.Minute) {
			t.Errorf("now is %v, want 2s, an hour and a minute", time.Duration(got))
		}
		if m.asked != 2 {
			t.Errorf("the machine was asked %d times, want once for each sleep", m.asked)
		}
	})
}

func TestClock_DoesNotCountAStepOfTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMachine()
		for i, step := range []time.Duration{time.Hour, -2 * time.Hour, 51 * time.Millisecond} {
			time.Sleep(time.Second)
			setWall(c, step)
			for range 3 {
				if got, want := c.now(), instant(time.Duration(i+1)*time.Second); got != want {
					t.Errorf("now is %v after a step of %v, want %v", time.Duration(got), step, time.Duration(want))
				}
			}
			if m.asked != i+1 {
				t.Errorf("the machine was asked %d times after %d steps", m.asked, i+1)
			}
		}
	})
}

func TestClock_CountsSleepAlsoWhereTheWallClockIsSetBackBySomeOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMachine()
		m.sleep(c, time.Hour)
		setWall(c, -30*time.Minute)
		if got := c.now(); got != instant(time.Hour) {
			t.Errorf("now is %v, want an hour", time.Duration(got))
		}
	})
}

func TestClock_DoesNotLookCloserWithoutAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMachine()
		setWall(c, stepped)
		for range 100 {
			time.Sleep(time.Minute)
			c.now()
		}
		if m.asked != 0 {
			t.Errorf("the machine was asked %d times", m.asked)
		}
	})
}

func TestClock_TakesAStepAheadForSleepWhereNothingTellsThemApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMachine()
		m.blind = true
		setWall(c, time.Hour)
		if got := c.now(); got != instant(time.Hour) {
			t.Errorf("now is %v after a step ahead, want an hour", time.Duration(got))
		}
		setWall(c, -2*time.Hour)
		if got := c.now(); got != instant(time.Hour) {
			t.Errorf("now is %v after a step back, want an hour", time.Duration(got))
		}
	})
}

func TestClock_NeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMachine()
		last := c.now()
		for i := range 100 {
			setWall(c, time.Duration(i%7-3)*time.Second)
			if i%5 == 0 {
				m.sleep(c, time.Second)
			}
			m.blind = i%3 == 0
			now := c.now()
			if now < last {
				t.Fatalf("now is %v after %v", time.Duration(now), time.Duration(last))
			}
			last = now
		}
	})
}

func TestClock_TimeBelongsToTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMachine()
		time.Sleep(time.Second)
		m.sleep(c, time.Hour)
		if got, want := c.time(c.now()), time.Now(); !got.Equal(want) {
			t.Errorf("time is %v, want %v", got, want)
		}
	})
}

func TestSuspendedTime_DoesNotGrowWhileTheMachineIsAwake(t *testing.T) {
	before, ok := suspendedTime()
	after, okAfter := suspendedTime()
	if ok != okAfter || after-before > 100*time.Millisecond || before-after > 100*time.Millisecond {
		t.Errorf("slept %v, %v and then %v, %v", before, ok, after, okAfter)
	}
}

// asleep runs f under a lease on a machine that can sleep.
func asleep(t *testing.T, f func(ctx context.Context, h *hold, sleep func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(local.New(), WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		m, c := newMachine()
		s.e.clock = c
		_, err = s.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			l, _ := LeaseFrom(ctx)
			f(ctx, l.h, func(d time.Duration) { m.sleep(c, d) })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestLease_TheFirstCheckAfterTheMachineSleptSaysLost(t *testing.T) {
	checks := map[string]func(ctx context.Context) bool{
		"Err":       func(ctx context.Context) bool { return ctx.Err() != nil },
		"Cause":     func(ctx context.Context) bool { return context.Cause(ctx) != nil },
		"LeaseFrom": func(ctx context.Context) bool { _, ok := LeaseFrom(ctx); return !ok },
		"Done": func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		},
		"a new child": func(ctx context.Context) bool {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			return child.Err() != nil
		},
	}
	for name, over := range checks {
		t.Run(name, func(t *testing.T) {
			asleep(t, func(ctx context.Context, _ *hold, sleep func(time.Duration)) {
				sleep(30 * time.Second)
				if over(ctx) {
					t.Error("lost by a sleep shorter than the lease")
				}
				sleep(28 * time.Second)
				if !over(ctx) {
					t.Error("trusted after a sleep until the trust deadline")
				}
			})
		})
	}
}

func TestLease_ChildrenFollowSoonAfterTheMachineSlept(t *testing.T) {
	asleep(t, func(ctx context.Context, _ *hold, sleep func(time.Duration)) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		sleep(time.Hour)
		woke := time.Now()
		<-child.Done()
		if took := time.Since(woke); took > maxTick {
			t.Errorf("the child ended %v after the machine woke, want within %v", took, maxTick)
		}
	})
}

func TestLease_TheFirstCheckAfterTheProcessWasStoppedSaysLost(t *testing.T) {
	asleep(t, func(ctx context.Context, h *hold, _ func(time.Duration)) {
		_ = ctx.Done()
		h.mu.Lock() // no timer fires in a process that is stopped
		h.inner.timer.Stop()
		h.mu.Unlock()
		s := &h.e.renewals
		s.mu.Lock()
		s.timer.Stop()
		s.mu.Unlock()
		time.Sleep(time.Hour)
		if ctx.Err() == nil {
			t.Error("trusted after an hour without a renewal")
		}
	})
}

func TestLeaseContext_SaysLostAlsoWhereTheOneWhoEndedItWasStoppedBeforeItTold(t *testing.T) {
	checks := map[string]func(ctx context.Context) bool{
		"Err":   func(ctx context.Context) bool { return ctx.Err() != nil },
		"Cause": func(ctx context.Context) bool { return context.Cause(ctx) != nil },
		"Done": func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		},
	}
	for name, over := range checks {
		t.Run(name, func(t *testing.T) {
			asleep(t, func(ctx context.Context, h *hold, _ func(time.Duration)) {
				_ = ctx.Done()
				h.mu.Lock() // the first half of hold.change
				h.mark(lost(ErrExpired, nil))
				h.mu.Unlock()
				if !over(ctx) {
					t.Error("trusted, though the lease is marked as over")
				}
				h.mu.Lock()
				inner := h.inner
				h.mu.Unlock()
				inner.cancel(h.cause) // the second half
			})
		})
	}
}
