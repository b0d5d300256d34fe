package raftleader

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// bell wakes everybody who listens. The zero value is ready.
type bell struct {
	mu   sync.Mutex
	next chan struct{}
}

// listen returns a channel that is closed when the bell rings next.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// asides counts calls that go on when nobody waits for them any more. The zero value is ready.
type asides struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0; nil while nobody waits for that
	over chan struct{} // closed when raft is shut down, which then forgets whom it owes an answer; may be nil
}

func (a *asides) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n += n
	if a.n == 0 && a.none != nil {
		close(a.none)
		a.none = nil
	}
}

// run calls f on a goroutine of its own.
func (a *asides) run(f func()) {
	a.add(1)
	go func() {
		defer a.add(-1)
		f()
	}()
}

// wait waits until there are none, or for the given time.
func (a *asides) wait(most time.Duration) {
	a.mu.Lock()
	if a.n == 0 {
		a.mu.Unlock()
		return
	}
	if a.none == nil {
		a.none = make(chan struct{})
	}
	none := a.none
	a.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}

// aside makes a call that knows no context, and returns when ctx ends at the latest, with its error, or when raft does.
func aside[T any](ctx context.Context, a *asides, call func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	a.run(func() {
		v, err := call()
		done <- result{v, err}
	})
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case <-a.over:
		var none T
		return none, raft.ErrRaftShutdown
	}
}
