package schedule

import "time"

// In is a schedule of times of day, such as a cron expression, as clocks show them in a place. Each comes once a day,
// also where daylight saving changes: in the hour that comes twice it is the first that counts, and what is due in the
// hour that is left out is due when that would have begun. A schedule that is due in each hour of its days goes by hours
// that pass, and so is due in both of the hours that look the same. Its fire times have the zone of the place.
//
// s takes the zone of the time that it is asked about, as parsers of cron expressions do, and has none of its own.
func In(place *time.Location, s Schedule) Schedule {
	if s == nil || place == time.UTC {
		return inUTC(s)
	}
	if hourly(s) {
		return Func(func(t time.Time) time.Time { return s.Next(t.In(place)) })
	}
	return Func(func(t time.Time) time.Time {
		for last := shownIn(place, t); ; {
			shown := s.Next(last)
			switch {
			case shown.IsZero():
				return time.Time{}
			case !shown.After(last):
				return t // it is broken
			}
			if fire := firstShown(place, shown); fire.After(t) {
				return fire.In(place)
			}
			last = shown
		}
	})
}

func inUTC(s Schedule) Schedule {
	if s == nil {
		return nil
	}
	return Func(func(t time.Time) time.Time { return s.Next(t.UTC()) })
}

// hourly reports whether a schedule is due in each hour of its days.
func hourly(s Schedule) bool {
	fire := s.Next(time.Unix(0, 0).UTC())
	if fire.IsZero() {
		return false
	}
	midnight := fire.UTC().Truncate(24 * time.Hour)
	for i := range 24 {
		hour := midnight.Add(time.Duration(i) * time.Hour)
		next := s.Next(hour.Add(-1))
		if next.IsZero() || !next.Before(hour.Add(time.Hour)) {
			return false
		}
	}
	return true
}

// shownIn is what the clocks of a place show at t, as a time in UTC.
func shownIn(place *time.Location, t time.Time) time.Time {
	_, offset := t.In(place).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstShown is the first instant at which the clocks of a place show a time, or, if they never do, are past it.
func firstShown(place *time.Location, shown time.Time) time.Time {
	before := shown.Add(-offsetAt(place, shown.Add(-24*time.Hour)))
	if shownIn(place, before).Equal(shown) {
		return before
	}
	after := shown.Add(-offsetAt(place, shown.Add(24*time.Hour)))
	if shownIn(place, after).Equal(shown) {
		return after
	}
	change, _ := before.In(place).ZoneBounds()
	return change
}

func offsetAt(place *time.Location, t time.Time) time.Duration {
	_, offset := t.In(place).Zone()
	return time.Duration(offset) * time.Second
}
