package zkleader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/zkleader"
)

func TestElector_GivingUp1000TimesLeavesNothing(t *testing.T) {
	server := ownServer(t)
	opts := &zkleader.Options{SessionTimeout: time.Minute}
	holder, waiter := open(t, server.Addr(), opts), open(t, server.Addr(), opts)
	l := acquired(t, holder, request("job", time.Minute))
	e, err := leader.New(waiter)
	if err != nil {
		t.Fatal(err)
	}
	giveUp := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		got, err := e.Acquire(ctx, "job", leader.WithWaitTime(time.Minute))
		if err == nil {
			t.Errorf("acquired with fence %d", got.Info().Fence)
		}
	}
	giveUp()
	before := runtime.NumGoroutine()
	var giving sync.WaitGroup
	for range 10 {
		giving.Go(func() {
			for range 100 {
				giveUp()
			}
		})
	}
	giving.Wait()
	client := connect(t, server.Addr())
	if children, _, err := client.Children("/leader/job"); err != nil || len(children) != 1 {
		t.Errorf("children %v, %v: want the holder's alone", children, err)
	}
	if n := counted(t, server, "zk_ephemerals_count"); n != 1 {
		t.Errorf("%d ephemeral nodes, want the holder's alone", n)
	}
	if n := counted(t, server, "zk_watch_count"); n > 1 {
		t.Errorf("%d watches, want at most the one of the process", n)
	}
	if n := counted(t, server, "zk_global_sessions"); n != 3 {
		t.Errorf("%d sessions, want those of the two backends and of this test", n)
	}
	if err := l.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the watch is gone", func() bool { return counted(t, server, "zk_watch_count") == 0 })
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+10 })
}

func TestBackend_AwaitRelease_OfManyIsOneWatch(t *testing.T) {
	server := ownServer(t)
	b := open(t, server.Addr(), nil)
	l := acquired(t, b, request("job", 10*time.Second))
	h, err := b.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 50
	woken := make(chan error, waiters)
	for range waiters {
		go func() { woken <- b.AwaitRelease(t.Context(), "job", h.Seen) }()
	}
	eventually(t, "somebody watches", func() bool { return counted(t, server, "zk_watch_count") > 0 })
	for range 5 { // renewals wake nobody
		if err := l.Renew(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted(t, server, "zk_watch_count"); n != 1 {
		t.Errorf("%d watches, want 1", n)
	}
	select {
	case err := <-woken:
		t.Errorf("a waiter returns %v while the key is held", err)
	default:
	}
	if err := l.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for range waiters {
		select {
		case err := <-woken:
			if err != nil {
				t.Errorf("AwaitRelease: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a waiter is not woken")
		}
	}
}

func TestBackend_AwaitRelease_OfATermThatIsOverLeavesNoWatchOnIt(t *testing.T) {
	server := ownServer(t)
	holder, waiter := open(t, server.Addr(), nil), open(t, server.Addr(), nil)
	for range 10 {
		l := acquired(t, holder, request("job", 10*time.Second))
		h, err := waiter.Inspect(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := waiter.AwaitRelease(t.Context(), "job", h.Seen); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted(t, server, "zk_watch_count"); n > 1 {
		t.Errorf("%d watches, want at most that of the key's node", n)
	}
}

func TestLease_Lost_CostsAShortRunNoWatch(t *testing.T) {
	server := ownServer(t)
	b := open(t, server.Addr(), nil)
	packets := func() int { return counted(t, server, "zk_packets_received") }
	acquired(t, b, request("warm", time.Second))
	own := packets()
	own = packets() - own // what it takes to count
	before := packets()
	const runs = 20
	for i := range runs {
		l := acquired(t, b, request(fmt.Sprintf("job-%d", i), time.Second))
		lost(t, l)
		if err := l.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	// A look, a transaction, another one; and what keeps the session alive.
	if n := packets() - before - own; n > 3*runs+5 {
		t.Errorf("%d requests for %d runs of new names, want 3 for each", n, runs)
	}
	lost(t, acquired(t, b, request("long", 10*time.Second)))
	eventually(t, "a longer lease is watched", func() bool { return counted(t, server, "zk_watch_count") == 1 })
}

func TestBackend_AwaitRelease_IsToldOfTheEndOfASession(t *testing.T) {
	server := ownServer(t)
	var p tap
	holder := open(t, server.Addr(), &zkleader.Options{Dial: p.dial})
	b := open(t, server.Addr(), nil)
	acquired(t, holder, request("job", 10*time.Second))
	h, err := b.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	go func() { woken <- b.AwaitRelease(t.Context(), "job", h.Seen) }()
	eventually(t, "it watches", func() bool { return counted(t, server, "zk_watch_count") == 1 })
	p.expire(t, server.Addr())
	select {
	case err := <-woken:
		if err != nil {
			t.Errorf("AwaitRelease: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("AwaitRelease goes on")
	}
}

func TestBackend_AwaitRelease_AfterTheSessionOfTheHolderWaitsForAChange(t *testing.T) {
	server := ownServer(t)
	var p tap
	holder := open(t, server.Addr(), &zkleader.Options{Dial: p.dial})
	b := open(t, server.Addr(), nil)
	acquired(t, holder, request("job", 10*time.Second))
	p.expire(t, server.Addr())
	h, err := b.Inspect(t.Context(), "job")
	if err != nil || h.Remaining <= 0 {
		t.Fatalf("Inspect = %+v, %v: want a lease whose time has not passed", h, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := b.AwaitRelease(ctx, "job", h.Seen); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AwaitRelease: %v, want that it waits", err)
	}
	woken := make(chan error, 1)
	go func() { woken <- b.AwaitRelease(t.Context(), "job", h.Seen) }()
	if err := b.Break(t.Context(), "job", h.Fence); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-woken:
		if err != nil {
			t.Errorf("AwaitRelease: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("AwaitRelease goes on after Break")
	}
}

func TestElector_AWaiterWhoseSessionEndsLeadsOnlyWhatItAcquires(t *testing.T) {
	server := ownServer(t)
	var p tap
	holder := open(t, server.Addr(), &zkleader.Options{SessionTimeout: time.Minute})
	waiter := open(t, server.Addr(), &zkleader.Options{SessionTimeout: time.Minute, Dial: p.dial})
	held := acquired(t, holder, request("job", time.Minute))
	e, err := leader.New(waiter)
	if err != nil {
		t.Fatal(err)
	}
	led := make(chan *leader.Lease, 1)
	go func() {
		l, err := e.Acquire(t.Context(), "job", leader.WithWaitTime(patience))
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		led <- l
	}()
	for range 3 {
		eventually(t, "it waits", func() bool { return counted(t, server, "zk_watch_count") == 1 })
		p.expire(t, server.Addr())
		if err := held.Renew(t.Context(), time.Minute); err != nil {
			t.Fatalf("Renew of the holder: %v", err)
		}
	}
	select {
	case <-led:
		t.Fatal("the waiter leads what is held")
	case <-time.After(300 * time.Millisecond):
	}
	if err := held.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	l := <-led
	if l == nil {
		return
	}
	if l.Info().Fence <= held.Fence() {
		t.Errorf("fence %d after %d", l.Info().Fence, held.Fence())
	}
	if n := counted(t, server, "zk_ephemerals_count"); n != 1 {
		t.Errorf("%d ephemeral nodes, want that of the new leader", n)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
