package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/goleader/leader"
)

var (
	errOver  = errors.New("the lease is over")
	errStale = errors.New("refused, a later process has the partition")
)

// cache is a map with the items of all partitions, and an entry for each partition that says what was warmed last, and
// under which fence.
type cache struct{ entries *hazelcast.Map }

func markKey(partition int) string { return fmt.Sprintf("%d:warm", partition) }

func itemKey(partition, item int) string { return fmt.Sprintf("%d:item-%d", partition, item) }

// stamp is what is written: the generation, and the fence and the node of who wrote it.
type stamp struct {
	generation int64 // in s since 1970
	fence      uint64
	node       string
}

func (s stamp) String() string { return fmt.Sprintf("%d %d %s", s.generation, s.fence, s.node) }

func parseStamp(text string) (s stamp, err error) {
	if _, err := fmt.Sscan(text, &s.generation, &s.fence, &s.node); err != nil {
		return s, fmt.Errorf("%q: %w", text, err)
	}
	return s, nil
}

// stampOf is what the holder of the lease in ctx writes, while it may.
func stampOf(ctx context.Context, generation time.Time) (stamp, error) {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted || ctx.Err() != nil {
		return stamp{}, errors.Join(errOver, context.Cause(ctx))
	}
	info := held.Info()
	return stamp{generation.Unix(), info.Fence, info.Node}, nil
}

// isWarm reports whether a partition has been warmed in a generation, or in a later one.
func (c cache) isWarm(ctx context.Context, partition int, generation time.Time) (bool, error) {
	last, _, err := c.lastMark(ctx, partition)
	return err == nil && last.generation >= generation.Unix(), err
}

// lastMark returns what was warmed last, and the text of it, nil if nothing was.
func (c cache) lastMark(ctx context.Context, partition int) (last stamp, text any, err error) {
	text, err = c.entries.Get(ctx, markKey(partition))
	if err != nil || text == nil {
		return last, nil, err
	}
	last, err = parseStamp(fmt.Sprint(text))
	return last, text, err
}

// put stores an item. One that is written late, by a process that was stopped, is as good as the one of the process that
// took over, so nothing more than the lease is asked for.
func (c cache) put(ctx context.Context, partition, item int, generation time.Time) error {
	s, err := stampOf(ctx, generation)
	if err != nil {
		return err
	}
	return c.entries.Set(ctx, itemKey(partition, item), s.String())
}

// mark says that a partition is warm, unless a process with a later lease has said so: the mark of one that was stopped
// for a while is refused by its fence.
func (c cache) mark(ctx context.Context, partition int, generation time.Time) error {
	for {
		s, err := stampOf(ctx, generation)
		if err != nil {
			return err
		}
		last, text, err := c.lastMark(ctx, partition)
		if err != nil {
			return err
		}
		if last.fence > s.fence {
			return fmt.Errorf("fence %d: %w", s.fence, errStale)
		}
		var done bool
		if text == nil {
			var found any
			found, err = c.entries.PutIfAbsent(ctx, markKey(partition), s.String())
			done = found == nil
		} else {
			done, err = c.entries.ReplaceIfSame(ctx, markKey(partition), text, s.String())
		}
		if done || err != nil {
			return err
		}
	}
}
