package raftleader_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
)

// server returns how raft calls node i.
func server(c *nodes, i int) (raft.ServerID, raft.ServerAddress) {
	return raft.ServerID(c.list[i].ID()), raft.ServerAddress(c.configs[i].Addr)
}

func TestBackend_TheTimeOfTheLog_NeverRunsAhead(t *testing.T) {
	c := startNodes(t, 3)
	began := time.Now()
	lag := func(i int) time.Duration {
		office := c.list[i].Office()
		after := time.Since(began) // read first, so that the lag is not taken for smaller than it is
		return after - time.Duration(office.Now())*time.Microsecond
	}
	i := c.leader()
	before := lag(i)
	for range 6 {
		acquire(t, c.list[i], "job"+time.Now().String(), "a")
		i = c.moveAway(i)
		now := lag(i)
		if now < before-time.Millisecond { // what is between the two readings of one clock
			t.Fatalf("the time of the log is %v behind, and was %v behind", now, before)
		}
		before = now
	}
	if before > patience {
		t.Errorf("the time of the log is %v behind", before)
	}
}

func TestBackend_ALeaseOverAChangeOfLeader_EndsNeitherEarlyNorLate(t *testing.T) {
	c := startNodes(t, 3)
	const lease = 2 * time.Second
	l, err := try(t, c.list[0], "job", "a", lease)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now() // from here on it has at most the whole lease left
	if err := l.Renew(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	renewed := time.Now()
	c.kill(c.leader())
	rival := c.list[c.follower()]
	eventually(t, "the lease is over", func() bool {
		_, err := try(t, rival, "job", "b", lease)
		if err != nil && !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
		return err == nil
	})
	if took := time.Since(began); took < lease {
		t.Errorf("it ended after %v", took)
	}
	if took, most := time.Since(renewed), lease+rival.Limits().Late+2*time.Second; took > most {
		t.Errorf("it ended after %v, want at most %v", took, most)
	}
}

func TestBackend_TheTimeOfTheLog_MovesWhileALeaseRuns(t *testing.T) {
	c := startNodes(t, 3)
	acquire(t, c.list[0], "job", "a")
	b := c.list[c.follower()]
	for range 2 {
		before := b.Machine().Now()
		eventually(t, "a second passes in the log of a follower", func() bool {
			return b.Machine().Now() > before+time.Second.Microseconds()
		})
	}
}

func TestBackend_TheLog_RestsWhileNothingRuns(t *testing.T) {
	c := startNodes(t, 3)
	released(t, acquire(t, c.list[0], "job", "a"))
	b := c.list[c.leader()]
	before := b.Raft().LastIndex()
	time.Sleep(2500 * time.Millisecond) // two ticks
	if now := b.Raft().LastIndex(); now != before {
		t.Errorf("the log grew from %d to %d", before, now)
	}
}

func TestBackend_ATerm_IsTwoEntries(t *testing.T) {
	c := startNodes(t, 3)
	b := c.list[c.leader()]
	const terms = 100
	before := b.Raft().LastIndex()
	for range terms {
		released(t, acquire(t, b, "job", "a"+time.Now().String()))
	}
	grown := b.Raft().LastIndex() - before
	if grown < 2*terms || grown > 2*terms+20 { // ticks
		t.Errorf("%d terms were %d entries, want 2 each", terms, grown)
	}
}

// What is abandoned may be on its way through the log while another is known to hold the key.
func TestBackend_Abandon_IsAlwaysAnEntry(t *testing.T) {
	c := startNodes(t, 1)
	l := acquire(t, c.list[0], "job", "a")
	const times = 50
	before := c.list[0].Raft().LastIndex()
	for range times {
		if err := c.list[0].Abandon(t.Context(), request("job", "b")); err != nil {
			t.Fatal(err)
		}
	}
	if grown := c.list[0].Raft().LastIndex() - before; grown < times {
		t.Errorf("%d calls were %d entries", times, grown)
	}
	renewed(t, l)
}

func TestBackend_ARefusal_IsNoEntry(t *testing.T) {
	c := startNodes(t, 3)
	b := c.list[c.leader()]
	l := acquire(t, b, "job", "a")
	const times = 100
	before := b.Raft().LastIndex()
	for range times {
		if _, err := c.list[0].TryAcquire(t.Context(), request("job", "b")); !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("got %v, want ErrHeld", err)
		}
		if _, err := c.list[1].Inspect(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if err := c.list[2].Break(t.Context(), "job", l.Fence()+1); !errors.Is(err, backend.ErrConflict) {
			t.Fatalf("got %v, want ErrConflict", err)
		}
		if _, _, err := c.list[1].GetRecords(t.Context(), "job!run/"); err != nil {
			t.Fatal(err)
		}
		for _, err := range c.list[2].List(t.Context(), "", true) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if grown := b.Raft().LastIndex() - before; grown > 20 { // ticks
		t.Errorf("%d refusals were %d entries", 5*times, grown)
	}
}
