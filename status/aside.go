package status

import (
	"context"
	"errors"
	"sync"
	"time"
)

// bound is the longest that an answer of the store, or of the history, is waited for.
const bound = 2 * time.Second

var errNoAnswer = errors.New("no answer in time")

// aside makes calls that may outlive their context: one at a time, which all who want its answer share, and each of them
// waits for so long and no longer.
type aside[T any] struct {
	mu      sync.Mutex
	current *answer[T]
}

type answer[T any] struct {
	done  chan struct{} // closed when the rest is set
	value T
	err   error
}

// call returns the answer of the call under way, or of f. ctx ends the wait, not the call, which others may wait for; nor
// has the call its values, such as the span and the identity of whoever happened to ask first.
func (a *aside[T]) call(ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	a.mu.Lock()
	c := a.current
	if c == nil {
		c = &answer[T]{done: make(chan struct{})}
		a.current = c
		go a.run(c, f) //nolint:contextcheck // see above
	}
	a.mu.Unlock()
	t := time.NewTimer(bound)
	defer t.Stop()
	var zero T
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return zero, ctx.Err()
	case <-t.C:
	}
	select {
	case <-c.done: // at the same moment
		return c.value, c.err
	default:
		return zero, errNoAnswer
	}
}

func (a *aside[T]) run(c *answer[T], f func(ctx context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ownContext(), bound)
	defer cancel()
	c.value, c.err = f(ctx)
	a.mu.Lock()
	a.current = nil
	a.mu.Unlock()
	close(c.done)
}

// ownContext is that of what the page does for all.
func ownContext() context.Context { return context.Background() } //nolint:forbidigo // it belongs to no request

// waitFor makes a call of its own for ctx, with its values, that may outlive it.
func waitFor(ctx context.Context, f func(ctx context.Context) error) error {
	var calls aside[struct{}]
	_, err := calls.call(ctx, func(context.Context) (struct{}, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
		defer cancel()
		return struct{}{}, f(ctx)
	})
	return err
}

// busy reports whether a call is under way.
func (a *aside[T]) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current != nil
}
