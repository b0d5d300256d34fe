package machine_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

func TestMachine_Foresee_AnswersWhatChangesNothing(t *testing.T) {
	c := found(t)
	mine := c.want(machine.OK, acquire(0, "a", "1"))
	gone := c.want(machine.OK, acquire(0, "gone", "1"))
	c.want(machine.OK, release(0, "gone", "1", gone.Fence, 0))
	version := c.want(machine.OK, machine.Command{Kind: machine.PutRecord, Key: "a!x/1"}).Version
	rows := map[string]struct {
		cmd  machine.Command
		want machine.Code // 0: it has to be proposed
	}{
		"free key":           {acquire(1, "b", "1"), 0},
		"held":               {acquire(1, "a", "2"), machine.Held},
		"spent":              {acquire(1, "gone", "1"), machine.Lost},
		"own":                {acquire(1, "a", "1"), 0},
		"longer":             {renew(1, "a", "1", mine.Fence, ttl), 0},
		"shorter":            {renew(1, "a", "1", mine.Fence, second), machine.OK},
		"lost":               {renew(1, "a", "2", mine.Fence, second), machine.Lost},
		"released before":    {release(1, "gone", "1", gone.Fence, 0), machine.OK},
		"release":            {release(1, "a", "1", mine.Fence, 0), 0},
		"abandoned before":   {abandon(1, "gone", "1"), machine.OK},
		"another's":          {abandon(1, "a", "2"), machine.OK},
		"never arrived":      {abandon(1, "b", "1"), 0},
		"break":              {machine.Command{Kind: machine.Break, Key: "a", Fence: mine.Fence}, 0},
		"other fence":        {machine.Command{Kind: machine.Break, Key: "a", Fence: 1}, machine.Conflict},
		"other version":      {machine.Command{Kind: machine.PutRecord, Key: "a!x/1"}, machine.Conflict},
		"put":                {machine.Command{Kind: machine.PutRecord, Key: "a!x/1", Version: version}, 0},
		"delete":             {machine.Command{Kind: machine.DeleteRecord, Key: "a!x/1", Version: version}, 0},
		"deleted before":     {machine.Command{Kind: machine.DeleteRecord, Key: "a!x/2", Version: version}, machine.OK},
		"full group":         {machine.Command{Kind: machine.AcquireSlot, Key: "empty", Token: "1"}, machine.Held},
		"group":              {machine.Command{Kind: machine.AcquireSlot, Key: "g", Token: "1", Slots: 1}, 0},
		"tick":               {tick(1), 0},
		"founded before":     {machine.Command{Kind: machine.Found}, machine.OK},
		"unknown to the log": {acquire(1+ttl, "a", "2"), 0},
	}
	for name, row := range rows {
		got, ok := c.Foresee(row.cmd)
		if ok != (row.want != 0) || got.Code != row.want {
			t.Errorf("%s: got %+v, %v, want %d", name, got, ok, row.want)
		}
	}
	if c.Now() != 0 || c.Holder("a", 0).Remaining != ttl {
		t.Error("looking ahead has changed something")
	}
}

// TestMachine_Foresee_DoesNotRestOnAnEndThatTheLogDoesNotKnow: the next raft leader would take it back.
func TestMachine_Foresee_DoesNotRestOnAnEndThatTheLogDoesNotKnow(t *testing.T) {
	c := found(t)
	r := c.want(machine.OK, acquire(0, "a", "1"))
	version := c.want(machine.OK, machine.Command{Kind: machine.PutRecord, Key: "a!x/1", TTL: ttl}).Version
	commands := map[string]machine.Command{
		"renew":  renew(ttl, "a", "1", r.Fence, ttl),
		"break":  {Kind: machine.Break, At: ttl, Key: "a", Fence: r.Fence},
		"put":    {Kind: machine.PutRecord, At: ttl, Key: "a!x/1", Version: version},
		"delete": {Kind: machine.DeleteRecord, At: ttl, Key: "a!x/1", Version: version},
	}
	for name, cmd := range commands {
		if got, ok := c.Foresee(cmd); ok {
			t.Errorf("%s: foreseen as %+v by an end that the log does not know", name, got)
		}
	}
	c.apply(tick(ttl))
	for name, cmd := range commands {
		if got, ok := c.Foresee(cmd); !ok {
			t.Errorf("%s: not foreseen by an end that the log knows: %+v", name, got)
		}
	}
}

func TestMachine_TimedAndDue_SayWhetherTimeMatters(t *testing.T) {
	c := found(t)
	check := func(when string, at int64, timed, due bool) {
		t.Helper()
		if c.Timed() != timed || c.Due(at) != due {
			t.Errorf("%s: timed %v, due %v at %d", when, c.Timed(), c.Due(at), at)
		}
	}
	check("empty", hour, false, false)
	c.want(machine.OK, acquire(0, "a", "1"))
	check("held", ttl-1, true, false)
	check("expired, as the log does not know", ttl, true, true)
	c.apply(tick(ttl))
	check("expired, as the log knows", ttl, false, false)
	r := c.want(machine.OK, acquire(ttl, "a", "2"))
	c.want(machine.OK, release(ttl, "a", "2", r.Fence, second))
	check("kept", ttl, true, false)
	c.want(machine.OK, release(ttl, "a", "2", r.Fence, 0))
	check("released", 2*ttl, false, false)
	v := c.want(machine.OK, machine.Command{Kind: machine.PutRecord, Key: "a!x/1", TTL: second}).Version
	check("a record with an end", ttl, true, false)
	v = c.want(machine.OK, machine.Command{Kind: machine.PutRecord, Key: "a!x/1", Version: v}).Version
	check("a record without one", 2*ttl, false, false)
	v = c.want(machine.OK, machine.Command{Kind: machine.PutRecord, Key: "a!x/1", Version: v, TTL: second}).Version
	c.want(machine.OK, machine.Command{Kind: machine.DeleteRecord, Key: "a!x/1", Version: v})
	check("deleted", 2*ttl, false, false)
}

// TestMachine_Sweep_BoundsWhatIsRemembered: an hour after its end a lease is forgotten, and not before.
func TestMachine_Sweep_BoundsWhatIsRemembered(t *testing.T) {
	c := found(t)
	const each = 10 * second
	most := 0
	for i := range int64(10_000) {
		at := i * each
		key := fmt.Sprint("key ", i)
		r := c.want(machine.OK, acquire(at, key, "1"))
		if i%2 == 0 {
			c.want(machine.OK, release(at, key, "1", r.Fence, 0))
		}
		c.want(machine.OK, machine.Command{Kind: machine.PutRecord, At: at, Key: "a!x/" + key, TTL: ttl})
		most = max(most, c.Size())
	}
	if limit := int(hour/each) + 10; most > limit {
		t.Errorf("%d leases and records, want at most %d", most, limit)
	}
	end := 9_999*each + ttl
	c.want(machine.Lost, acquire(end-ttl-each+hour-1, "key 9998", "1"))
	c.apply(tick(end + hour))
	if n := c.Size(); n != 0 || c.Queued() != 0 {
		t.Errorf("%d leases and records, %d events, want none an hour after", n, c.Queued())
	}
}

// TestMachine_Sweep_ForgetsTheOldestOfTooMany: the memory of spent tokens is bounded also where an hour sees many names.
func TestMachine_Sweep_ForgetsTheOldestOfTooMany(t *testing.T) {
	one, other := found(t), found(t)
	const surplus = 100
	for i := range machine.RememberMost + surplus {
		one.want(machine.OK, abandon(int64(i/7), strconv.Itoa(i), "1"))
	}
	if one.Size() != machine.RememberMost || one.Queued() != machine.RememberMost {
		t.Errorf("%d leases, %d events, want %d", one.Size(), one.Queued(), machine.RememberMost)
	}
	other.Restore(one.Snapshot())
	for _, c := range []*cluster{one, other} {
		c.index = machine.RememberMost + 2*surplus
		c.want(machine.Lost, acquire(0, strconv.Itoa(2*surplus), "1"))
		for i := range 50 {
			c.want(machine.OK, abandon(hour/2, "later "+strconv.Itoa(i), "1"))
		}
		c.want(machine.OK, acquire(0, "0", "1"))
	}
	if !bytes.Equal(encoded(t, one.Machine), encoded(t, other.Machine)) {
		t.Error("a machine that was restored forgets others")
	}
}
