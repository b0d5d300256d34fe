package tickstest

import (
	"slices"
	"testing"
	"time"
)

// EachOnce starts three replicas, 300 ms apart, whose job takes 20 ms, and checks that they run it exactly once for each
// of five fire times, so five times in ten seconds.
func EachOnce(t *testing.T) {
	const wanted = 5
	c := newCluster(t, 20*time.Millisecond)
	c.startThree()
	for range 3 {
		from := time.Now().Truncate(Period).Add(2 * Period)
		until := from.Add(wanted * Period)
		log, stood := c.await("the fire time after the window is run", func(log []entry) bool {
			return len(log) > 0 && !log[len(log)-1].fire.Before(until)
		})
		checkNoneTwice(t, log)
		begun, ended := between(log, "begins", from, until), between(log, "ends", from, until)
		if stood && len(ended) < wanted {
			t.Logf("the machine stood still for over %v; again", stalled)
			continue
		}
		if len(begun) != wanted || !slices.EqualFunc(begun, ended, time.Time.Equal) {
			t.Errorf("begun %v\nended %v\nwant %d runs from %v on", begun, ended, wanted, from)
		}
		checkTheirTime(t, log)
		return
	}
	t.Fatal("the machine stood still in every window: nothing was shown")
}

// Killed starts three replicas and kills one while it is at work. It checks that no fire time is run twice, and that
// none is missing after the next one.
func Killed(t *testing.T) {
	const wanted = 4
	c := newCluster(t, 700*time.Millisecond)
	c.startThree()
	for range 5 {
		killed, ok := c.killAtWork()
		if !ok {
			continue
		}
		from := killed.Add(2 * Period)
		until := from.Add(wanted * Period)
		log, stood := c.await("life goes on", func(log []entry) bool { return !log[len(log)-1].fire.Before(until) })
		checkNoneTwice(t, log)
		begun := between(log, "begins", from, until)
		if stood && len(begun) < wanted {
			t.Logf("the machine stood still for over %v; again", stalled)
			continue
		}
		if len(begun) != wanted {
			t.Errorf("killed in the run for %v, then %v; want %d runs from %v on", killed, begun, wanted, from)
		}
		return
	}
	t.Fatal("nothing was shown: no replica was killed at work on a machine that did not stand still")
}

// killAtWork kills a replica while it works, and returns the fire time of its run. If it was done with its work, its
// death would show nothing. Another one takes its place.
func (c *cluster) killAtWork() (fire time.Time, ok bool) {
	c.t.Helper()
	seen := len(c.entries())
	log, _ := c.await("a run begins", func(log []entry) bool {
		return len(log) > seen && log[len(log)-1].what == "begins"
	})
	victim := log[len(log)-1]
	c.kill(victim.node)
	ended := between(c.entries(), "ends", victim.fire, victim.fire.Add(Period))
	c.start(victim.node)
	return victim.fire, len(ended) == 0
}

// between are the fire times of that window in the list, in order.
func between(log []entry, what string, from, until time.Time) (fires []time.Time) {
	for _, e := range log {
		if e.what == what && !e.fire.Before(from) && e.fire.Before(until) {
			fires = append(fires, e.fire)
		}
	}
	slices.SortFunc(fires, time.Time.Compare)
	return fires
}

// checkNoneTwice fails for each fire time that was begun more than once.
func checkNoneTwice(t *testing.T, log []entry) {
	t.Helper()
	runs := make(map[int64]int)
	for _, e := range log {
		if e.what != "begins" {
			continue
		}
		if runs[e.fire.UnixMilli()]++; runs[e.fire.UnixMilli()] > 1 {
			t.Errorf("%v was begun %d times", e.fire, runs[e.fire.UnixMilli()])
		}
	}
}

// checkTheirTime fails for runs whose fire time is not a multiple of the period that had come, or was to come, then.
func checkTheirTime(t *testing.T, log []entry) {
	t.Helper()
	for _, e := range log {
		if e.what != "begins" {
			continue
		}
		if late := e.noted.Sub(e.fire); late < -Period || late > 2*Period || !e.fire.Equal(e.fire.Truncate(Period)) {
			t.Errorf("the run for %v began at %v", e.fire, e.noted)
		}
	}
}
