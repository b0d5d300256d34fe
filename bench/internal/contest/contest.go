// Package contest times several ways to do the same work in turns, so that whatever else the machine does hits all of
// them alike, and compares them within each round.
package contest

import (
	"context"
	"fmt"
	"time"
)

// block is how many operations a contestant does before it is the next one's turn.
const block = 25

// A Way does one operation and returns how long it took.
type Way func(ctx context.Context) (time.Duration, error)

// Timed is a Way that takes the time of op.
func Timed(op func(ctx context.Context) error) Way {
	return func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		err := op(ctx)
		return time.Since(begin), err
	}
}

// Batched is a Way for an op that is too short for the clock: it does n of them and returns the mean.
func Batched(n int, op func(ctx context.Context) error) Way {
	return func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		for range n {
			if err := op(ctx); err != nil {
				return 0, err
			}
		}
		return time.Since(begin) / time.Duration(n), nil
	}
}

// Contestant is a Way with its name.
type Contestant struct {
	Name string
	Way  Way
}

// Plan is the size of a contest.
type Plan struct {
	Rounds int // at least 1
	Ops    int // of each contestant in each round, about
}

// Times has the median time of each contestant in each round, in nanoseconds.
type Times map[string][]float64

// Run lets the contestants take turns after a warm-up of one turn each. ctx is that of the operations; the first error
// ends the contest.
func (p Plan) Run(ctx context.Context, all ...Contestant) (Times, error) {
	turns, size := p.turns()
	if _, err := round(ctx, all, 1, size); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	times := Times{}
	for range p.Rounds {
		took, err := round(ctx, all, turns, size)
		if err != nil {
			return nil, err
		}
		for i, c := range all {
			times[c.Name] = append(times[c.Name], Median(took[i]))
		}
	}
	return times, nil
}

// turns is how many turns a contestant has in a round, an even number, and how many operations one turn has.
func (p Plan) turns() (turns, size int) {
	size = max(1, min(block, p.Ops/2))
	return 2 * max(1, p.Ops/(2*size)), size
}

// round returns the times of each contestant.
func round(ctx context.Context, all []Contestant, turns, size int) ([][]float64, error) {
	took := make([][]float64, len(all))
	for turn := range turns {
		for _, i := range order(len(all), turn) {
			for range size {
				d, err := all[i].Way(ctx)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", all[i].Name, err)
				}
				took[i] = append(took[i], float64(d))
			}
		}
	}
	return took, nil
}

// order is who comes when in a turn: A B C, then C B A, and so on, so that a drift favours nobody.
func order(n, turn int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
		if turn%2 == 1 {
			list[i] = n - 1 - i
		}
	}
	return list
}
