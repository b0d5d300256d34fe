package schedule

import "time"

// minKeep is for how long a fire time stays marked at least, unless the user says otherwise: a clock that is wrong by an
// hour is a common one.
const minKeep = 2 * time.Hour

// Schedule says when a job is due. Its fire times are a set of instants on which all nodes agree: Next returns the first
// of them after t, and the zero time if there is none. It may be called concurrently. What adds a period to t is none, and
// is refused.
type Schedule interface {
	Next(t time.Time) time.Time
}

// Func is a function as a [Schedule].
type Func func(t time.Time) time.Time

// Next implements [Schedule].
func (f Func) Next(t time.Time) time.Time { return f(t) }

// Every is a fixed rate: the instants at which the wall clock is a multiple of the period since the zero time, in UTC.
// Every(24*time.Hour) is midnight in UTC, wherever the nodes are. The period must be positive.
type Every time.Duration

// Next implements [Schedule].
func (e Every) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// Delay is a fixed pause between the end of a run and the start of the next one, which a [Job] keeps on all nodes
// together: the pause belongs to the run, and its node leads meanwhile. There is no fire time that nodes could share, so
// there are no run keys. When a node stops or dies, the next one begins as soon as it has the lease. It must be positive.
type Delay time.Duration

// Next implements [Schedule].
func (d Delay) Next(t time.Time) time.Time { return t.Add(time.Duration(d)) }

// farBack is how far Latest looks back. Between two 29ths of February are up to eight years.
const farBack = 9 * 366 * 24 * time.Hour

// Latest is the newest fire time that is not after t. It reports false if there is none in the nine years before.
func Latest(s Schedule, t time.Time) (fire time.Time, found bool) {
	if e, ok := s.(Every); ok {
		return t.Truncate(time.Duration(e)), true
	}
	for back := time.Second; back < 2*farBack; back *= 2 {
		if fire, found = latestSince(s, t.Add(-back), t); found {
			return fire, true
		}
	}
	return time.Time{}, false
}

// latestSince is the newest fire time after from that is not after t.
func latestSince(s Schedule, from, t time.Time) (fire time.Time, found bool) {
	for next := s.Next(from); next.After(from) && !next.After(t); next = s.Next(from) {
		fire, from, found = next, next, true
	}
	return fire, found
}

// runKey is the run key of a fire time.
func runKey(fire time.Time) string { return fire.UTC().Format(time.RFC3339Nano) }

// periodOf is the time from a fire time to the next one, 0 if there is none.
func periodOf(s Schedule, fire time.Time) time.Duration {
	next := s.Next(fire)
	if !next.After(fire) {
		return 0
	}
	return next.Sub(fire)
}
