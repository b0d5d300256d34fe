package schedule_test

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // wherever the tests run

	"github.com/goleader/leader/schedule"
)

// timesOfDay is due at those times of each day, in the zone in which it is asked, as parsers of cron expressions are.
func timesOfDay(all ...time.Duration) schedule.Schedule {
	return schedule.Func(func(t time.Time) time.Time {
		midnight := t.Truncate(24 * time.Hour)
		if t.Location() != time.UTC {
			panic("asked in " + t.Location().String())
		}
		for ; ; midnight = midnight.Add(24 * time.Hour) {
			for _, d := range all {
				if fire := midnight.Add(d); fire.After(t) {
					return fire
				}
			}
		}
	})
}

const (
	halfPastOne = time.Hour + 30*time.Minute
	halfPastTwo = 2*time.Hour + 30*time.Minute
)

func TestIn_EachTimeOfDay_ComesOnceADay(t *testing.T) {
	place, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	daily := timesOfDay(halfPastOne, halfPastTwo, 3*time.Hour+10*time.Minute)
	for what, c := range map[string]struct {
		from time.Time
		want []string
	}{
		"the hour that comes twice": {
			time.Date(2026, 10, 31, 12, 0, 0, 0, place),
			[]string{"01 01:30 EDT", "01 02:30 EST", "01 03:10 EST", "02 01:30 EST"},
		},
		"from within the second one": {
			time.Date(2026, 11, 1, 6, 10, 0, 0, time.UTC), // 1:10 EST
			[]string{"01 02:30 EST", "01 03:10 EST", "02 01:30 EST", "02 02:30 EST"},
		},
		"the hour that is left out": {
			time.Date(2026, 3, 7, 12, 0, 0, 0, place),
			[]string{"08 01:30 EST", "08 03:00 EDT", "08 03:10 EDT", "09 01:30 EDT"},
		},
	} {
		var got []string
		when := schedule.In(place, daily)
		for fire := c.from; len(got) < len(c.want); {
			next := when.Next(fire)
			if again := when.Next(next.Add(-1)); !next.After(fire) || !again.Equal(next) {
				t.Fatalf("%s: after %v comes %v, and after the nanosecond before that %v", what, fire, next, again)
			}
			fire = next
			got = append(got, fire.In(place).Format("02 15:04 MST"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func TestIn_WhatIsDueInEachHour_GoesByHoursThatPass(t *testing.T) {
	place, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	when := schedule.In(place, schedule.Every(time.Hour))
	at := time.Date(2026, 10, 31, 12, 0, 0, 0, place)
	for range 48 {
		next := when.Next(at)
		if d := next.Sub(at); d != time.Hour {
			t.Fatalf("%v after %v comes the next one", d, at)
		}
		at = next
	}
}

func TestIn_UTC_AndZonesWithoutChanges_AreTheSchedule(t *testing.T) {
	kolkata := time.FixedZone("", 5*3600+1800)
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, kolkata)
	if got, want := schedule.In(kolkata, timesOfDay(halfPastOne)).Next(at), at.Add(13*time.Hour+30*time.Minute); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := schedule.In(time.UTC, timesOfDay(halfPastOne)).Next(at), at.Add(19*time.Hour); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	still := schedule.Func(func(t time.Time) time.Time { return t })
	if got := schedule.In(kolkata, still).Next(at); !got.Equal(at) {
		t.Errorf("a schedule that stands still goes on to %v", got)
	}
	if schedule.In(kolkata, nil) != nil || schedule.In(time.UTC, nil) != nil {
		t.Error("no schedule has become one")
	}
}
