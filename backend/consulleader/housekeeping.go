package consulleader

import (
	"context"
	"sync"
	"time"
)

const (
	// choreTimeout bounds a request that nobody waits for.
	choreTimeout = 5 * time.Second
	// closeTimeout bounds how long Close waits.
	closeTimeout = 10 * time.Second
	// atOnce is how many chores run at a time. A server that does not answer must not pile them up.
	atOnce = 16
	// maxChores is how many chores wait their turn. What is not done by us is done by the ends of sessions.
	maxChores = 4096
)

// housekeeping runs what a backend does aside: creating sessions that somebody no longer waits for, and destroying
// those that nobody may use.
type housekeeping struct {
	mu      sync.Mutex
	closed  bool
	queue   []func()
	working int
	running sync.WaitGroup
}

func newHousekeeping() *housekeeping { return &housekeeping{} }

// do runs f soon, on a goroutine that close waits for, with a context of its own that keeps the values of ctx.
// Nobody runs it after close, or when too much waits.
func (h *housekeeping) do(ctx context.Context, f func(ctx context.Context)) {
	ctx = context.WithoutCancel(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.queue) >= maxChores {
		return
	}
	h.queue = append(h.queue, func() {
		ctx, cancel := context.WithTimeout(ctx, choreTimeout)
		defer cancel()
		f(ctx)
	})
	if h.working < atOnce {
		h.working++
		h.running.Go(h.work)
	}
}

// start is do for what somebody waits for: it does not wait its turn. It reports false after close.
func (h *housekeeping) start(ctx context.Context, f func(ctx context.Context)) bool {
	ctx = context.WithoutCancel(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, choreTimeout)
		defer cancel()
		f(ctx)
	})
	return true
}

// work runs chores until there are none.
func (h *housekeeping) work() {
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			h.queue = nil
			h.working--
			h.mu.Unlock()
			return
		}
		chore := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		chore()
	}
}

// close refuses new chores and waits for the others.
func (h *housekeeping) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.running.Wait()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
