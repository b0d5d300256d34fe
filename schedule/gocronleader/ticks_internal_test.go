package gocronleader

import (
	"testing"
	"time"

	"github.com/goleader/leader/schedule"
)

const period = 2 * time.Second

// start is a border of two periods.
var start = time.Date(2026, 11, 29, 16, 0, 0, 0, time.UTC)

// calls are the fire times of calls at those times after the start, in periods.
func calls(t *testing.T, k *ticks, at ...time.Duration) (fires []int) {
	t.Helper()
	for _, d := range at {
		fire, found := k.fire("job", start.Add(d))
		if !found {
			t.Fatalf("no fire time for a call at %v", d)
		}
		fires = append(fires, int(fire.Sub(start)/period))
	}
	return fires
}

func TestTicks_AtTheBorderOfTwoPeriods_SkipNoneAndRepeatNone(t *testing.T) {
	const early, late = -2 * time.Millisecond, 5 * time.Millisecond
	var at []time.Duration
	for i := range 40 {
		off := []time.Duration{late, early, early, late, 0}[i%5]
		at = append(at, time.Duration(i)*period+off)
	}
	fires := calls(t, &ticks{when: schedule.Every(period)}, at...)
	for i, fire := range fires[1:] {
		if fire != fires[i]+1 {
			t.Fatalf("fire times %v, want one after the other", fires)
		}
	}
}

func TestTicks_AwayFromTheBorder_AreThePeriodsOfTheWallClock(t *testing.T) {
	k := &ticks{when: schedule.Every(period)}
	got := calls(t, k, time.Second, 3*time.Second, 3100*time.Millisecond, 9*time.Second, 13*time.Second, 15*time.Second)
	for i, want := range []int{0, 1, 1, 4, 6, 7} {
		if got[i] != want {
			t.Errorf("call %d belongs to %d, want %d", i, got[i], want)
		}
	}
}

func TestTicks_AfterTheClockWasSet_FollowTheClock(t *testing.T) {
	k := &ticks{when: schedule.Every(period)}
	if got := calls(t, k, time.Second, time.Hour, time.Hour+period); got[1] != 1800 || got[2] != 1801 {
		t.Errorf("after it was set ahead: %v, want 1800 and 1801", got)
	}
	if got := calls(t, k, time.Minute, time.Minute+period); got[0] != 30 || got[1] != 31 {
		t.Errorf("after it was set back: %v, want 30 and 31", got)
	}
}

func TestTicks_OfNames_AreTheirOwn(t *testing.T) {
	k := &ticks{when: schedule.Every(period)}
	calls(t, k, -time.Millisecond)
	if fire, _ := k.fire("other", start.Add(period-time.Millisecond)); !fire.Equal(start) {
		t.Errorf("%v, want %v", fire, start)
	}
}
