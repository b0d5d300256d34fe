package gocronleader

import (
	"sync"
	"time"

	"github.com/goleader/leader/schedule"
)

// ticks finds out to which fire time a call belongs. gocron calls some time after the tick, and counts the ticks of a
// DurationJob from its start: if they stand at the border of two periods, calls come now before it and now after it.
type ticks struct {
	when schedule.Schedule

	mu   sync.Mutex
	last map[string]tick // by name
}

// tick is a call and the fire time that it was found to belong to.
type tick struct {
	fire time.Time
	at   time.Time
}

// fire is the fire time of a call: the newest that has come, or, if the call follows the last one after about a period,
// the one that follows that call's. It reports false if none has come yet.
func (k *ticks) fire(name string, now time.Time) (fire time.Time, found bool) {
	fire, found = schedule.Latest(k.when, now.Round(0))
	if !found {
		return fire, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if last, ok := k.last[name]; ok {
		next := k.when.Next(last.fire)
		period, since := next.Sub(last.fire), now.Sub(last.at)
		if since > period/2 && since < period*3/2 && k.neighbours(next, fire) {
			fire = next
		}
	}
	if k.last == nil {
		k.last = make(map[string]tick)
	}
	k.last[name] = tick{fire: fire, at: now}
	return fire, true
}

// neighbours reports whether two fire times are the same, or one follows the other.
func (k *ticks) neighbours(a, b time.Time) bool {
	return a.Equal(b) || k.when.Next(a).Equal(b) || k.when.Next(b).Equal(a)
}
