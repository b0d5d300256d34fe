package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // for the tests of daylight saving, wherever they run

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// steppedClock is a wall clock that stands still but for pauses, and is set while they last.
type steppedClock struct {
	wall  time.Time
	awake time.Duration // what timers have counted
	steps []step        // in order
	end   time.Duration // the job is ended then
	stop  func()
}

// step sets the clock by a time, once the machine has been awake for another. A suspended machine looks the same: its
// timers stand still, and its wall clock has gone on.
type step struct{ after, by time.Duration }

func (c *steppedClock) now() time.Time { return c.wall }

func (c *steppedClock) pause(ctx context.Context, d time.Duration) error {
	until := c.awake + d
	for len(c.steps) > 0 && c.steps[0].after <= until {
		c.goOn(c.steps[0].after - c.awake)
		c.wall = c.wall.Add(c.steps[0].by)
		c.steps = c.steps[1:]
	}
	c.goOn(until - c.awake)
	if c.awake >= c.end {
		c.stop()
	}
	return ctx.Err()
}

func (c *steppedClock) goOn(d time.Duration) {
	c.awake += d
	c.wall = c.wall.Add(d)
}

// at is an instant of the day of all tests.
func at(hour, minute, second int) time.Time {
	return time.Date(2026, 11, 29, hour, minute, second, 0, time.UTC)
}

// clockRun is a job and the clock by which it is run.
type clockRun struct {
	when   Schedule
	start  time.Time
	steps  []step
	lasts  time.Duration // awake
	work   time.Duration // what each run takes
	opts   []Option
	runner leader.Runner // nil means a store of its own
}

// fires runs the job and returns the fire times that were run, and those that were reported as missed.
func (r clockRun) fires(t *testing.T) (ran, missed []time.Time) {
	t.Helper()
	if r.runner == nil {
		r.runner = newLocalElector(t, local.New())
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := &steppedClock{wall: r.start, steps: r.steps, end: r.lasts, stop: stop}
	opts := append([]Option{
		WithLogger(slog.New(slog.DiscardHandler)),
		WithReport(func(_ context.Context, tick Tick) {
			if tick.Missed {
				missed = append(missed, tick.Fire)
			}
			if tick.Err != nil {
				t.Errorf("%v: %v", tick.Fire, tick.Err)
			}
		}),
	}, r.opts...)
	j, err := New(r.runner, "job", r.when, func(ctx context.Context) error {
		fire, _ := FireTime(ctx)
		ran = append(ran, fire)
		_ = c.pause(ctx, r.work) // the end is not the action's to notice
		return nil
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	j.clock = c
	if err := j.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return ran, missed
}

func newLocalElector(t *testing.T, b *local.Backend) leader.Elector {
	t.Helper()
	e, err := leader.New(b)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func checkFires(t *testing.T, what string, got []time.Time, want ...time.Time) {
	t.Helper()
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%s\n%v, want\n%v", what, times(got), times(want))
	}
}

func times(list []time.Time) (texts []string) {
	for _, t := range list {
		texts = append(texts, t.UTC().Format("15:04:05"))
	}
	return texts
}

// checkNoneTwice fails for each fire time that was run more than once.
func checkNoneTwice(t *testing.T, ran []time.Time) {
	t.Helper()
	seen := make(map[string]bool)
	for _, fire := range ran {
		if seen[runKey(fire)] {
			t.Errorf("%v was run twice", fire)
		}
		seen[runKey(fire)] = true
	}
}

func TestJob_ClockIsSetAheadByAnHour_WhatWasMissedFollowsThePolicy(t *testing.T) {
	r := clockRun{
		when: Every(10 * time.Minute), start: at(9, 5, 0), lasts: 20 * time.Minute,
		steps: []step{{after: 8 * time.Minute, by: time.Hour}}, // 9:13 becomes 10:13
	}
	ran, missed := r.fires(t)
	checkFires(t, "ran", ran, at(9, 10, 0), at(10, 20, 0))
	checkFires(t, "missed", missed, at(10, 10, 0))

	r.opts = []Option{WithMissed(RunOnce)}
	ran, missed = r.fires(t)
	checkFires(t, "ran", ran, at(9, 10, 0), at(10, 10, 0), at(10, 20, 0))
	checkFires(t, "missed", missed)
}

func TestJob_ClockIsSetAhead_IsNoticedWithinSeconds(t *testing.T) {
	r := clockRun{
		when: Every(time.Hour), start: at(9, 5, 0), lasts: 11 * time.Minute,
		steps: []step{{after: 10 * time.Minute, by: 44*time.Minute + 40*time.Second}}, // 9:15 becomes 9:59:40
	}
	ran, missed := r.fires(t)
	checkFires(t, "ran", ran, at(10, 0, 0))
	checkFires(t, "missed", missed)
}

func TestJob_ClockIsSetBackByAnHour_RunsNoFireTimeTwice(t *testing.T) {
	for _, policy := range []Missed{Skip, RunOnce} {
		r := clockRun{
			when: Every(10 * time.Minute), start: at(9, 45, 0), lasts: 100 * time.Minute,
			steps: []step{{after: 30 * time.Minute, by: -time.Hour}}, // 10:15 becomes 9:15
			opts:  []Option{WithMissed(policy)},
		}
		ran, missed := r.fires(t)
		checkNoneTwice(t, ran)
		// 9:50, 10:00 and 10:10 come again and are not run; what had not come before the start is.
		checkFires(t, fmt.Sprint(policy, " ran"), ran,
			at(9, 50, 0), at(10, 0, 0), at(10, 10, 0), at(9, 20, 0), at(9, 30, 0), at(9, 40, 0), at(10, 20, 0))
		checkFires(t, "missed", missed)
	}
}

func TestJob_ClockThatWasYearsAhead_IsNotWaitedFor(t *testing.T) {
	years := 4 * 366 * 24 * time.Hour
	r := clockRun{
		when: Every(10 * time.Minute), start: at(9, 5, 0).Add(years), lasts: 30 * time.Minute,
		steps: []step{{after: 2 * time.Minute, by: -years}},
	}
	ran, _ := r.fires(t)
	checkFires(t, "ran", ran, at(9, 10, 0), at(9, 20, 0), at(9, 30, 0))
}

func TestJob_SuspendedLaptop_WhatWasMissedFollowsThePolicy(t *testing.T) {
	r := clockRun{
		when: Every(10 * time.Minute), start: at(9, 5, 0), lasts: 10 * time.Minute,
		steps: []step{{after: time.Minute, by: 7*time.Hour + 2*time.Minute}}, // asleep from 9:06 to 16:08
	}
	ran, missed := r.fires(t)
	checkFires(t, "ran", ran, at(16, 10, 0))
	checkFires(t, "missed", missed, at(16, 0, 0))

	r.opts = []Option{WithMissed(RunOnce)}
	ran, missed = r.fires(t)
	checkFires(t, "ran", ran, at(16, 0, 0), at(16, 10, 0))
	checkFires(t, "missed", missed)

	// Asleep until a few seconds after a fire time: it is in time.
	r = clockRun{
		when: Every(10 * time.Minute), start: at(9, 5, 0), lasts: 3 * time.Minute,
		steps: []step{{after: time.Minute, by: 7*time.Hour + 4*time.Minute + 20*time.Second}},
	}
	ran, missed = r.fires(t)
	checkFires(t, "ran", ran, at(16, 10, 0))
	checkFires(t, "missed", missed)
}

func TestJob_RunOnce_MakesUpForNothingWhoseMarkMayBeGone(t *testing.T) {
	r := clockRun{
		when: Every(10 * time.Minute), start: at(9, 5, 0), lasts: 10 * time.Minute,
		steps: []step{{after: time.Minute, by: 7*time.Hour + 2*time.Minute}},
		opts:  []Option{WithMissed(RunOnce), WithKeep(15 * time.Minute)},
	}
	ran, missed := r.fires(t)
	checkFires(t, "ran", ran, at(16, 10, 0))
	checkFires(t, "missed", missed, at(16, 0, 0)) // eight minutes ago
}

func TestJob_SuspendedInItsJitter_RunsNothingWhoseMarkMayBeGone(t *testing.T) {
	for _, policy := range []Missed{Skip, RunOnce} {
		r := clockRun{
			when: Every(2 * time.Hour), start: at(9, 59, 0), lasts: 4 * time.Hour,
			// Asleep from a microsecond after the fire time, when the jitter goes on, until 15:00 of the next day.
			steps: []step{{after: time.Minute + time.Microsecond, by: 29 * time.Hour}},
			opts:  []Option{WithMissed(policy), WithJitter(time.Hour)},
		}
		ran, missed := r.fires(t)
		checkFires(t, fmt.Sprint(policy, " missed"), missed[:min(1, len(missed))], at(10, 0, 0))
		if len(ran) == 0 || ran[0].Before(at(14, 0, 0).AddDate(0, 0, 1)) {
			t.Errorf("%v: ran %v, want nothing before the machine woke up", policy, ran)
		}
	}
}

func TestJob_LaptopWakesUp_MakesUpForNothingThatOthersRan(t *testing.T) {
	store := local.New()
	others := clockRun{
		when: Every(10 * time.Minute), start: at(9, 5, 0), lasts: 7 * time.Hour, runner: newLocalElector(t, store),
	}
	done, _ := others.fires(t)
	laptop := clockRun{
		when: Every(10 * time.Minute), start: at(9, 5, 0), lasts: 10 * time.Minute,
		steps: []step{{after: time.Minute, by: 7*time.Hour + 2*time.Minute}},
		opts:  []Option{WithMissed(RunOnce)}, runner: newLocalElector(t, store),
	}
	ran, _ := laptop.fires(t)
	checkNoneTwice(t, append(done, ran...))
	checkFires(t, "ran", ran, at(16, 10, 0))
}

// daily is due at a time of day in a place.
func daily(place *time.Location, hour, minute int) Schedule {
	return Func(func(t time.Time) time.Time {
		t = t.In(place)
		for day := t.Day(); ; day++ {
			if fire := time.Date(t.Year(), t.Month(), day, hour, minute, 0, 0, place); fire.After(t) {
				return fire
			}
		}
	})
}

func TestJob_DaylightSaving_RunsEachDayOnce(t *testing.T) {
	place, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for what, start := range map[string]time.Time{
		"the hour that is left out": time.Date(2026, 3, 6, 12, 0, 0, 0, place),
		"the hour that comes twice": time.Date(2026, 10, 30, 12, 0, 0, 0, place),
	} {
		for _, hour := range []int{1, 2} {
			r := clockRun{when: daily(place, hour, 30), start: start, lasts: 96 * time.Hour}
			ran, missed := r.fires(t)
			checkNoneTwice(t, ran)
			if len(ran) != 4 || len(missed) != 0 {
				t.Errorf("%s, at %d:30: ran %v, missed %v; want a run on each of four days", what, hour, ran, missed)
			}
			hourly := clockRun{when: Every(time.Hour), start: start, lasts: 96*time.Hour + time.Minute}
			ran, missed = hourly.fires(t)
			checkNoneTwice(t, ran)
			if len(ran) != 96 || len(missed) != 0 {
				t.Errorf("%s, hourly: %d runs, missed %v; want 96", what, len(ran), missed)
			}
		}
	}
}

func TestJob_RunsLongerThanThePeriod_WhatWasMissedFollowsThePolicy(t *testing.T) {
	r := clockRun{when: Every(10 * time.Second), start: at(9, 0, 5), lasts: 85 * time.Second, work: 25 * time.Second}
	ran, missed := r.fires(t)
	checkFires(t, "ran", ran, at(9, 0, 10), at(9, 0, 40), at(9, 1, 10))
	checkFires(t, "missed", missed, at(9, 0, 30), at(9, 1, 0))

	r.opts = []Option{WithMissed(RunOnce)}
	ran, missed = r.fires(t)
	checkFires(t, "ran", ran, at(9, 0, 10), at(9, 0, 30), at(9, 1, 0), at(9, 1, 20))
	checkFires(t, "missed", missed)
}

func TestJob_ASchedulesEnd_EndsTheJob(t *testing.T) {
	once := Func(func(t time.Time) time.Time {
		if fire := at(9, 10, 0); t.Before(fire) {
			return fire
		}
		return time.Time{}
	})
	ran, _ := clockRun{when: once, start: at(9, 5, 0), lasts: time.Hour}.fires(t)
	checkFires(t, "ran", ran, at(9, 10, 0))
}

func TestJob_ABrokenSchedule_IsAnError(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	if _, err := New(newLocalElector(t, local.New()), "job", Func(func(t time.Time) time.Time { return t }), nothing); err == nil {
		t.Error("no error of a schedule that stands still")
	}
	often, calls := Every(time.Millisecond), 0
	later := Func(func(t time.Time) time.Time {
		if calls++; calls > 2 {
			return t
		}
		return often.Next(t)
	})
	j, err := New(newLocalElector(t, local.New()), "job", later, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context()); err == nil {
		t.Error("no error of a schedule that stands still later on")
	}
}

func TestRunKey_IsOneForAnInstantInAllZones(t *testing.T) {
	fire := at(9, 0, 0)
	a, b := runKey(fire), runKey(fire.In(time.FixedZone("", 3600)))
	if a != b || a != "2026-11-29T09:00:00Z" {
		t.Errorf("%q and %q", a, b)
	}
	if a == runKey(fire.Add(time.Nanosecond)) {
		t.Error("two instants have one key")
	}
}
