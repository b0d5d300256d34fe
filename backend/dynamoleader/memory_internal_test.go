package dynamoleader

import (
	"strconv"
	"testing"
	"time"
)

const lasting = time.Minute

func heldState(fence uint64, stamp string) *state {
	return &state{key: "a", fence: fence, token: "token", ttl: lasting, stamp: stamp}
}

func heardAt(sent time.Time) *answer { return &answer{sent: sent, at: time.Now()} }

func TestMemory_CountsFromWhenTheStampWasFirstSeen(t *testing.T) {
	m := newMemory()
	// From the answer, however long ago it was asked for: the lease may have been renewed in between.
	if v := m.note(heldState(1, "x"), heardAt(time.Now().Add(-lasting))); v.remaining < lasting/2 {
		t.Errorf("%v remain at the first sight", v.remaining)
	}
	m.sights["a"].first = time.Now().Add(-lasting / 2)
	if v := m.note(heldState(1, "x"), heardAt(time.Now())); v.remaining > lasting/2 || !v.taken() {
		t.Errorf("%v remain of a stamp seen half a lease ago", v.remaining)
	}
	m.sights["a"].first = time.Now().Add(-lasting)
	if v := m.recall("a"); !v.expired() || v.taken() || !v.holder().Free() {
		t.Errorf("%v remain of a stamp seen a lease ago", v.remaining)
	}
	if v := m.note(heldState(1, "y"), heardAt(time.Now())); v.expired() {
		t.Error("a renewed lease has expired")
	}
	// What was gone and is there again has been renewed.
	m.sights["a"].first = time.Now().Add(-lasting)
	m.gone("a", heardAt(time.Now()))
	if v := m.recall("a"); v.state != nil {
		t.Errorf("recalled %+v", v.state)
	}
	if v := m.note(heldState(1, "y"), heardAt(time.Now())); v.expired() {
		t.Error("an item that was deleted and restored has expired at once")
	}
}

func TestMemory_AnAnswerThatIsOvertakenChangesNothing(t *testing.T) {
	m := newMemory()
	early := time.Now()
	time.Sleep(time.Millisecond)
	m.note(heldState(2, "new"), heardAt(time.Now()))
	if v := m.note(heldState(1, "old"), heardAt(early)); v.fence != 2 {
		t.Errorf("the newest has fence %d", v.fence)
	}
	m.gone("a", heardAt(early))
	if v := m.recall("a"); v.state == nil || v.fence != 2 {
		t.Error("an answer of before the item was made hides it")
	}
}

func TestMemory_ForgetsWhatNobodyAsksFor(t *testing.T) {
	m := newMemory()
	m.most = 10
	for i := range 10 {
		s := heldState(1, "x")
		s.key = strconv.Itoa(i)
		m.note(s, heardAt(time.Now()))
		if i%2 == 0 {
			m.sights[s.key].used = time.Now().Add(-2 * rememberFor)
		}
	}
	m.note(heldState(1, "x"), heardAt(time.Now()))
	if len(m.sights) != 6 || m.most != rememberAll {
		t.Errorf("%d sights, room for %d", len(m.sights), m.most)
	}
}

func TestClock_BoundsTheServicesTime(t *testing.T) {
	var c clock
	if _, _, ok := c.bounds(); ok {
		t.Error("a clock that was never set has bounds")
	}
	date := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	sent := time.Now().Add(-2 * time.Second)
	c.note(&answer{sent: sent, at: sent.Add(time.Second), date: date})
	c.note(&answer{sent: sent, at: time.Now()}) // which tells no time
	least, most, ok := c.bounds()
	if !ok || least.Before(date.Add(time.Second)) || most.Before(least.Add(time.Second)) || most.Sub(date) > time.Minute {
		t.Errorf("between %v and %v, %v", least, most, ok)
	}
	c.note(&answer{sent: sent, at: sent, date: date.Add(time.Hour)}) // which came before the last one
	if again, _, _ := c.bounds(); again.Sub(least) > time.Minute {
		t.Errorf("an answer of before changed the clock from %v to %v", least, again)
	}
	c.last.at = c.last.at.Add(-clockFor)
	if _, _, ok := c.bounds(); ok {
		t.Error("a time that was heard over a minute ago is trusted")
	}
}
