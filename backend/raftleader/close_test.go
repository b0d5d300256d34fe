package raftleader_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

func TestBackend_Close_LeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	c := startNodes(t, 3, durable(t))
	b := c.list[c.follower()]
	acquire(t, b, "job", "a")
	h, err := b.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- b.AwaitRelease(context.WithoutCancel(t.Context()), "job", h.Seen) }()
	go func() {
		var last error
		for _, last = range b.Watch(context.WithoutCancel(t.Context()), "job") {
		}
		ended <- last
	}()
	for i, b := range c.list {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("the second time: %v", err)
		}
		c.list[i] = nil
	}
	for range cap(ended) {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a wait on a closed node ended without an error")
			}
		case <-time.After(patience):
			t.Fatal("a wait on a closed node goes on")
		}
	}
	eventually(t, "all goroutines have ended", func() bool {
		return runtime.NumGoroutine() <= before
	})
}

// The raft library forgets whom it owes an answer when it is shut down.
func TestBackend_Close_AnswersWhoeverCalls(t *testing.T) {
	for range 10 {
		c := startNodes(t, 1)
		ctx := context.WithoutCancel(t.Context())
		const callers = 64
		ended := make(chan error, callers)
		for caller := range callers {
			go func() {
				for term := 0; ; term++ {
					_, err := c.list[0].TryAcquire(ctx, request(fmt.Sprint("job", caller, term), "a"))
					if err != nil {
						ended <- err
						return
					}
				}
			}()
		}
		eventually(t, "many call", func() bool { return c.list[0].Machine().Applied() > callers })
		if err := c.list[0].Kill(); err != nil {
			t.Error(err)
		}
		for range callers {
			select {
			case err := <-ended:
				if err == nil {
					t.Error("a call ended without an error")
				}
			case <-time.After(patience):
				t.Fatal("a call on a closed node goes on")
			}
		}
	}
}

func TestBackend_Close_RefusesCallsFromThenOn(t *testing.T) {
	c := startNodes(t, 1)
	b := c.list[0]
	l := acquire(t, b, "job", "a")
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Inspect(t.Context(), "job")
	for _, err := range []error{err, b.Check(), l.Renew(t.Context(), ttl), b.AwaitRelease(t.Context(), "job", "1")} {
		if backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("got %v, want Misconfigured", err)
		}
	}
}

func TestBackend_Close_OfTheRaftLeader_HandsItsOfficeOver(t *testing.T) {
	c := startNodes(t, 3)
	i := c.leader()
	next := c.list[(i+1)%3]
	l := acquire(t, next, "job", "a")
	if err := c.list[i].Close(); err != nil {
		t.Fatal(err)
	}
	c.list[i] = nil
	began := time.Now()
	renewed(t, l)
	// An election takes at least the timeout.
	if took := time.Since(began); took > election/2 {
		t.Errorf("the next call took %v", took)
	}
	if ids := ids(next); len(ids) != 3 {
		t.Errorf("members are %v: a closed node remains one", ids)
	}
}
