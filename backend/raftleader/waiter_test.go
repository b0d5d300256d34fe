package raftleader_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
)

// Followers hear of an entry with the next one, or after 50 to 100 ms, some fifty times as late as the raft leader. Those
// who wait on them are told sooner.
func TestBackend_AwaitRelease_OnAFollower_IsToldAtOnce(t *testing.T) {
	c := startNodes(t, 3)
	leader, follower := c.list[c.leader()], c.list[c.follower()]
	const rounds = 15
	var there, here []time.Duration
	for range rounds { // in turns, so that what else the machine does delays both
		there = append(there, hearing(t, leader, follower))
		here = append(here, hearing(t, leader, leader))
	}
	slices.Sort(there)
	slices.Sort(here)
	if late, soon := there[rounds/2], here[rounds/2]; late > 15*soon {
		t.Errorf("a follower's waiters are told after %v, the raft leader's after %v", late, soon)
	}
}

// hearing is how long after a release on the raft leader is begun a waiter on a node hears of it.
func hearing(t *testing.T, leader, node *raftleader.Backend) time.Duration {
	t.Helper()
	l := acquire(t, leader, "job", "a"+time.Now().String())
	h, err := node.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	go func() { woken <- node.AwaitRelease(t.Context(), "job", h.Seen) }()
	time.Sleep(20 * time.Millisecond) // it is likely to wait by then; if not, it is told all the same
	began := time.Now()
	released(t, l)
	select {
	case err := <-woken:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it is not told")
	}
	return time.Since(began)
}

func TestBackend_AwaitRelease_GoesOnOverAChangeOfLeader(t *testing.T) {
	c := startNodes(t, 3)
	old := c.leader()
	waiting, other := c.list[(old+1)%3], c.list[(old+2)%3]
	l := acquire(t, other, "job", "a")
	h, err := waiting.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	go func() { woken <- waiting.AwaitRelease(t.Context(), "job", h.Seen) }()
	c.kill(old)
	c.leader()
	select {
	case err := <-woken:
		t.Fatalf("woken by a change of leader: %v", err)
	default:
	}
	released(t, l)
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it is not told")
	}
}

func TestBackend_Watch_YieldsEachHolderOnAFollower(t *testing.T) {
	c := startNodes(t, 3)
	leader, follower := c.list[c.leader()], c.list[c.follower()]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next, stop := iter.Pull2(follower.Watch(ctx, "job"))
	defer stop()
	expect := func(owner string) {
		t.Helper()
		h, err, ok := next()
		if err != nil || !ok || h.Owner != owner {
			t.Fatalf("got %+v, %v, want %q", h, err, owner)
		}
	}
	expect("")
	l := acquire(t, leader, "job", "a")
	expect("owner of a")
	released(t, l)
	expect("")
	if _, err := try(t, leader, "job", "b", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	expect("owner of b")
	expect("") // by its end
	cancel()
	if _, err, _ := next(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

func TestBackend_GetRecords_TellsTheTimeOfTheCluster(t *testing.T) {
	c := startNodes(t, 3)
	_, before, err := c.list[0].GetRecords(t.Context(), "job!run/")
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Since(before).Abs(); off > patience {
		t.Errorf("%v from the wall clock of the node that founded the cluster", off)
	}
	c.moveAway(c.leader())
	_, after, err := c.list[0].GetRecords(t.Context(), "job!run/")
	if err != nil || after.Sub(before).Abs() > patience {
		t.Errorf("got %v, %v by another raft leader, %v before", after, err, before)
	}
}

// A repeated attempt whose predecessor was given up must not open a term after it was abandoned.
func TestBackend_Abandon_ComesAfterTheAttempt(t *testing.T) {
	c := startNodes(t, 3)
	for _, i := range []int{c.leader(), c.follower()} {
		b := c.list[i]
		for n := range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(time.Duration(n%30)*10*time.Microsecond, cancel)
			req := request("job", "a"+time.Now().String())
			_, err := b.TryAcquire(ctx, req)
			stop.Stop()
			cancel()
			if errors.Is(err, backend.ErrHeld) {
				t.Fatalf("round %d on node %d: an attempt that was abandoned holds the key", n, i)
			}
			if err := b.Abandon(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
}
