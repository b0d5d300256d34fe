package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// brief bounds a request that is made on the caller's goroutine although it may miss a cancellation.
	brief = 50 * time.Millisecond
	// swift is how soon a store has to have answered for the next request to be made like that.
	swift = 10 * time.Millisecond
)

// request is one to a driver. It is idempotent, since it may be made twice.
type request[T any] struct {
	send  func(ctx context.Context) (T, error)
	again func()         // called before it is sent a second time, because the first had no answer; may be nil
	late  func(T, error) // called with the answer of one that was given up, when it comes; may be nil
}

// ask makes a request and returns when ctx ends at the latest, with ErrNoAnswer if the driver has not returned by then.
//
// A driver whose calls may outlive their context is asked on a goroutine that can be abandoned. The two switches of
// goroutines cost more than the round trip to a store nearby, so one that keeps deadlines and has been swift is asked
// here first, briefly, so that a cancellation is missed for no longer than that.
func ask[T any](ctx context.Context, e *engine, r request[T]) (T, error) {
	if !e.limits.Blocking {
		return r.send(ctx)
	}
	began := time.Now()
	if e.limits.Punctual && e.swift.Load() {
		v, err := askBriefly(ctx, r)
		e.timed(began)
		// A client may give up a little before its context says so.
		if err == nil || ctx.Err() != nil || time.Since(began) < brief*9/10 {
			return v, err
		}
		if r.again != nil {
			r.again()
		}
		began = time.Now()
	}
	v, err := askAside(ctx, r)
	if !errors.Is(err, ErrNoAnswer) {
		e.timed(began)
	}
	return v, err
}

// askBriefly makes a request here.
func askBriefly[T any](ctx context.Context, r request[T]) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, brief)
	defer cancel()
	return r.send(ctx)
}

// timed notes how long a request took.
func (e *engine) timed(began time.Time) { e.swift.Store(time.Since(began) < swift) }

// askAside makes a request on a goroutine of its own, which is abandoned when ctx ends.
func askAside[T any](ctx context.Context, r request[T]) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var (
		decided atomic.Bool // by whoever is first: the answer, or the end of ctx
		answers = make(chan answer, 1)
	)
	go func() {
		v, err := r.send(ctx)
		switch {
		case decided.CompareAndSwap(false, true):
			answers <- answer{v, err}
		case r.late != nil:
			r.late(v, err)
		}
	}()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-ctx.Done():
	}
	if decided.CompareAndSwap(false, true) {
		var none T
		return none, ErrNoAnswer
	}
	a := <-answers
	return a.v, a.err
}

// tell makes a request of which only the error matters, on a ctx that ends by its deadline alone.
func (e *engine) tell(ctx context.Context, send func(ctx context.Context) error) error {
	if !e.limits.Blocking || e.limits.Punctual {
		return send(ctx)
	}
	_, err := askAside(ctx, request[struct{}]{send: errorOnly(send)})
	return err
}

// errorOnly makes a request without a value of one that returns an error.
func errorOnly(send func(ctx context.Context) error) func(ctx context.Context) (struct{}, error) {
	return func(ctx context.Context) (struct{}, error) { return struct{}{}, send(ctx) }
}
