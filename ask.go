package leader

import (
	"context"
	"errors"
	"sync/atomic"
)

// errNoAnswer says that a request was given up; it may still be applied.
var errNoAnswer = errors.New("no answer in time")

// ask makes a request of a driver whose calls may outlive their context: on a goroutine of its own, which is abandoned
// when ctx ends. The error is errNoAnswer then, and late is called with the answer once it comes.
func ask[T any](ctx context.Context, request func() (T, error), late func(T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var (
		decided atomic.Bool // by whoever is first: the answer, or the end of ctx
		answers = make(chan answer, 1)
	)
	go func() {
		v, err := request()
		if decided.CompareAndSwap(false, true) {
			answers <- answer{v, err}
			return
		}
		late(v, err)
	}()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-ctx.Done():
	}
	if decided.CompareAndSwap(false, true) {
		var none T
		return none, errNoAnswer
	}
	a := <-answers
	return a.v, a.err
}

// tell makes a request of which only the error matters, aside if the driver's calls may outlive ctx. late, unless nil,
// is called with the answer of one that was given up.
func (e *engine) tell(ctx context.Context, request func() error, late func(error)) error {
	if !e.limits.Blocking {
		return request()
	}
	_, err := ask(ctx, func() (struct{}, error) { return struct{}{}, request() }, func(_ struct{}, err error) {
		if late != nil {
			late(err)
		}
	})
	return err
}
