package machine_test

import (
	"testing"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestMachine_Changed_TellsOfEachChangeOfTheHolder(t *testing.T) {
	c := found(t)
	var fence uint64
	steps := []struct {
		name string
		cmd  func() machine.Command
		want bool
	}{
		{"the first acquisition", func() machine.Command { return acquire(0, "a", "1") }, true},
		{"a renewal", func() machine.Command { return renew(0, "a", "1", fence, 2*ttl) }, false},
		{"a losing attempt", func() machine.Command { return acquire(0, "a", "2") }, false},
		{"another key", func() machine.Command { return acquire(0, "b", "2") }, false},
		{"a release that keeps", func() machine.Command { return release(0, "a", "1", fence, ttl) }, true},
		{"the end of what was kept", func() machine.Command { return tick(ttl) }, true},
		{"the next acquisition", func() machine.Command { return acquire(ttl, "a", "3") }, true},
		{"the end of a lease", func() machine.Command { return tick(2 * ttl) }, true},
		{"that it is forgotten", func() machine.Command { return tick(2*ttl + hour) }, true},
		{"a later acquisition", func() machine.Command { return acquire(3*hour, "a", "4") }, true},
	}
	for _, s := range steps {
		_, _, changed := c.Changed("a")
		cmd := s.cmd()
		if r := c.apply(cmd); r.Fence != 0 && cmd.Key == "a" {
			fence = r.Fence
		}
		if got := closed(changed); got != s.want {
			t.Errorf("%s: told %v, want %v", s.name, got, s.want)
		}
	}
}

func TestMachine_Changed_SaysHowFarTheLogIsKnown(t *testing.T) {
	c := found(t)
	c.want(machine.OK, acquire(0, "a", "1"))
	c.apply(tick(1))
	h, applied, _ := c.Changed("a")
	if h.Index != c.index-1 || applied != c.index || applied != c.Applied() {
		t.Errorf("index %d, applied %d, want %d and %d", h.Index, applied, c.index-1, c.index)
	}
	c.apply(tick(ttl))
	if h, _, _ := c.Changed("a"); !h.Free() {
		t.Errorf("%+v, want free by the time of the log", h)
	}
}

func TestMachine_Restore_WakesEverybody(t *testing.T) {
	c := found(t)
	c.want(machine.OK, acquire(0, "a", "1"))
	_, _, present := c.Changed("a")
	_, _, absent := c.Changed("b")
	c.Restore(machine.State{})
	if !closed(present) || !closed(absent) {
		t.Errorf("woken: present %v, absent %v", closed(present), closed(absent))
	}
	if h, applied, _ := c.Changed("a"); !h.Free() || applied != 0 || c.Epoch() != 0 || c.Now() != 0 {
		t.Errorf("%+v at %d", h, applied)
	}
}

// TestMachine_Changed_CostsNothingForKeysThatNeverCome: who waits for them shares notices.
func TestMachine_Changed_CostsNothingForKeysThatNeverCome(t *testing.T) {
	c := found(t)
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = string(rune('a'+i%26)) + string(rune(i))
	}
	for _, key := range keys {
		c.Changed(key) // every notice has a channel now
	}
	allocated := testing.AllocsPerRun(10, func() {
		for _, key := range keys {
			c.Changed(key)
		}
	})
	if allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
}
